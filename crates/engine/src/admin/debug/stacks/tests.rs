//! When stacks are shown, and when they are given up.

use super::*;
use crate::admin::tests::fixture::plan;
use parking_lot::{Condvar, Mutex};
use stoatflow_core::Error;
use stoatflow_operators::Raised;

/// An interpreter that a function may hold.
#[derive(Debug, Default)]
struct Interpreter {
    is_held: Mutex<bool>,
    released: Condvar,
    asked: Mutex<u32>,
}

impl Interpreter {
    fn hold(&self, held: bool) {
        *self.is_held.lock() = held;
        self.released.notify_all();
    }
}

impl Runtime for Interpreter {
    fn pause(&self, _time: Duration) -> bool {
        true
    }

    fn thread_stacks(&self) -> Option<Vec<ThreadStack>> {
        *self.asked.lock() += 1;
        let mut held = self.is_held.lock();
        self.released.wait_while(&mut held, |held| *held);
        let frame = StackFrame {
            file: "app.py".to_owned(),
            line: 12,
            function: "enrich".to_owned(),
            code: "return ask(value)".to_owned(),
        };
        Some(vec![ThreadStack {
            id: 77,
            name: Some("MainThread".to_owned()),
            frames: vec![frame],
        }])
    }

    fn exception(&self, _error: &Error) -> Option<Raised> {
        None
    }
}

#[test]
fn stacks_are_shown_by_thread_and_lane() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let reader = StackReader::default();
    let stacks = runtime.block_on(reader.read(Some(Arc::<Interpreter>::default())));
    let status = Status::new("app", Arc::new(plan()), 2);
    let shown = shown(&stacks, &status);
    assert_eq!(shown["available"], true);
    let thread = &shown["threads"][0];
    assert_eq!(
        (&thread["id"], &thread["name"], &thread["lane"]),
        (&json!(77), &json!("MainThread"), &Value::Null)
    );
    let frames = json!([
        { "file": "app.py", "line": 12, "function": "enrich", "code": "return ask(value)" }
    ]);
    assert_eq!(thread["stack"], frames);
    assert_eq!(of_thread(&stacks, Some(77)), frames);
    assert_eq!(of_thread(&stacks, Some(78)), Value::Null);
    assert_eq!(of_thread(&stacks, None), Value::Null);
}

#[test]
fn an_interpreter_that_is_held_is_asked_by_one_thread_only() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (reader, interpreter) = (StackReader::default(), Arc::<Interpreter>::default());
    interpreter.hold(true);
    let read = || runtime.block_on(reader.read(Some(Arc::clone(&interpreter) as _)));
    for _ in 0..3 {
        assert_eq!(read().unwrap_err(), HELD);
    }
    assert_eq!(*interpreter.asked.lock(), 1);
    let status = Status::new("app", Arc::new(plan()), 2);
    let shown = shown(&read(), &status);
    assert_eq!(shown["available"], false);
    assert!(shown["reason"].as_str().unwrap().contains("the GIL"));
    interpreter.hold(false);
    let moment = || runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
    let answers = (0..3_000).any(|_| {
        moment();
        read().is_ok()
    });
    assert!(answers, "it lets threads in again");
}

#[test]
fn without_an_interpreter_there_is_nothing_to_ask() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let stacks = runtime.block_on(StackReader::default().read(None));
    assert!(stacks.unwrap_err().contains("no interpreter"));
}
