//! When a request is answered, refused or given up.

use super::*;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(20);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn request(endpoint: usize) -> UserRequest {
    UserRequest {
        endpoint,
        ..UserRequest::default()
    }
}

fn answer(text: &str) -> UserAnswer {
    UserAnswer {
        status: 200,
        content_type: "text/plain".to_owned(),
        body: text.as_bytes().to_vec(),
    }
}

#[test]
fn a_request_is_taken_and_answered() {
    let runtime = runtime();
    let queue = Arc::new(UserCallQueue::default());
    let asked = runtime.spawn({
        let queue = Arc::clone(&queue);
        async move { queue.ask(request(3), LONG).await }
    });
    let call = queue.next(LONG).unwrap();
    assert_eq!(call.request.endpoint, 3);
    call.answer(answer("first"));
    call.answer(answer("second"));
    assert_eq!(runtime.block_on(asked).unwrap(), Ok(answer("first")));
}

#[test]
fn a_request_that_nobody_takes_expires() {
    let queue = UserCallQueue::default();
    let asked = runtime().block_on(queue.ask(request(1), SHORT));
    assert_eq!(asked, Err(NoAnswer::NotTaken));
    assert!(queue.next(SHORT).is_none(), "it is not handed out any more");
}

#[test]
fn an_expired_request_does_not_end_the_wait_for_the_next_one() {
    let runtime = runtime();
    let queue = Arc::new(UserCallQueue::default());
    let expired = runtime.block_on(queue.ask(request(1), SHORT));
    assert_eq!(expired, Err(NoAnswer::NotTaken));
    let taken = std::thread::scope(|scope| {
        let host = scope.spawn(|| queue.next(LONG));
        // The other thread begins to wait before or after this.
        std::thread::yield_now();
        // Not answered within this time.
        let asked = runtime.block_on(queue.ask(request(2), SHORT * 50));
        assert_eq!(asked, Err(NoAnswer::TooSlow), "it is taken");
        host.join().unwrap()
    });
    assert_eq!(taken.unwrap().request.endpoint, 2);
}

#[test]
fn a_request_that_is_taken_may_be_too_slow() {
    let runtime = runtime();
    let queue = Arc::new(UserCallQueue::default());
    let asked = runtime.spawn({
        let queue = Arc::clone(&queue);
        async move { queue.ask(request(1), Duration::from_millis(500)).await }
    });
    let call = queue.next(LONG).unwrap();
    assert_eq!(runtime.block_on(asked).unwrap(), Err(NoAnswer::TooSlow));
    call.answer(answer("late"));
}

#[test]
fn a_thread_that_ends_leaves_nobody_waiting() {
    let runtime = runtime();
    let queue = Arc::new(UserCallQueue::default());
    let asked = runtime.spawn({
        let queue = Arc::clone(&queue);
        async move { queue.ask(request(1), LONG).await }
    });
    let call = queue.next(LONG).unwrap();
    call.give_up();
    assert_eq!(runtime.block_on(asked).unwrap(), Err(NoAnswer::Dropped));
}

#[test]
fn too_many_are_refused_at_once() {
    let runtime = runtime();
    let queue = Arc::new(UserCallQueue::default());
    let all: Vec<_> = (0..MAX_WAITING)
        .map(|n| {
            let queue = Arc::clone(&queue);
            runtime.spawn(async move { queue.ask(request(n), LONG).await })
        })
        .collect();
    while queue.waiting.lock().len() < MAX_WAITING {
        std::thread::yield_now();
    }
    let refused = runtime.block_on(queue.ask(request(99), LONG));
    assert_eq!(refused, Err(NoAnswer::Full));
    // A client that disconnects frees its place.
    all[0].abort();
    let all_wait = || {
        let waiting = queue.waiting.lock();
        waiting
            .iter()
            .all(|call| call.state.load(SeqCst) == WAITING)
    };
    while all_wait() {
        std::thread::yield_now();
    }
    let queued = runtime.block_on(queue.ask(request(100), SHORT));
    assert_eq!(queued, Err(NoAnswer::NotTaken), "it was let in");
    runtime.shutdown_background();
}
