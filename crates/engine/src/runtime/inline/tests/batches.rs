//! Records that an operator has collected for a batch don't wait for a distant commit.

use super::*;

/// A function that can't take columns; calling it fails.
#[derive(Debug)]
struct Never;

impl Udf for Never {
    fn name(&self) -> &str {
        "app.py:1 never"
    }
    fn scope(&self, body: &mut dyn FnMut()) {
        body();
    }
}

#[test]
fn records_that_wait_for_a_batch_bring_the_commit_forward() {
    let plan = json!({
        "version": 1,
        "functions": ["app.py:1 never"],
        "nodes": [
            {"op": "stream", "topics": ["in"], "key": "string", "value": "json"},
            {"op": "map_batches", "from": 0, "function": {"udf": 0}, "max_rows": 10, "max_wait_ms": 50, "by_row": "_row"},
            {"op": "to", "from": 1, "topic": "out", "key": "string", "value": "json"},
        ],
    });
    let plan = stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap();
    for lanes in [1, 3] {
        let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Never)];
        let bench = TestBench::with_functions(&["in", "out"], lanes, plan.clone(), udfs);
        let mut engine = bench.start();
        engine.run_and_commit().unwrap();
        let shared = Arc::clone(&engine.parts().shared);
        // Commits are slow: the next one would follow only after all of commit.interval.ms, 100 ms.
        shared
            .last_commit_us
            .store(1_000_000, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(shared.until_punctuation(), None);
        bench.send("in", &[("a", r#"{"n":1}"#, 10)]);
        engine.run_until_idle().unwrap();
        assert_eq!(
            shared.until_punctuation(),
            Some(Duration::from_millis(50)),
            "the plan has no clock, and its lanes know the time all the same"
        );
        bench.clock.advance(Duration::from_millis(49));
        engine.run_until_idle().unwrap();
        bench.clock.advance(Duration::from_millis(1));
        let called = engine.run_until_idle().unwrap_err();
        assert!(called.message().contains("can't take columns"), "{called}");
    }
}
