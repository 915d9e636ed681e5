use super::*;

#[test]
fn settings_say_three_things() {
    assert_eq!(Handler::of_setting("log_and_fail"), Some(Handler::Fail));
    assert_eq!(
        Handler::of_setting(" log_and_continue "),
        Some(Handler::Continue)
    );
    assert_eq!(
        Handler::of_setting("dlq:bad"),
        Some(Handler::Dlq("bad".into()))
    );
    let class = "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler";
    assert_eq!(Handler::of_setting(class), Some(Handler::Continue));
    for wrong in ["", "dlq:", "continue", "DLQ:x", "retry"] {
        assert_eq!(Handler::of_setting(wrong), None, "{wrong}");
    }
}

fn retry(then: Handler) -> Handler {
    Handler::Retry(Box::new(RetryHandler {
        times: 2,
        backoff_ms: 10,
        then,
    }))
}

fn call(udf: u32) -> Handler {
    Handler::Call(CallableHandler {
        udf,
        topics: Vec::new(),
    })
}

#[test]
fn a_topic_is_found_behind_retries() {
    let handler = retry(retry(Handler::Dlq("bad".into())));
    assert_eq!(handler.topics(), ["bad"]);
    assert_eq!(retry(Handler::Continue).topics().len(), 0);
    let mut asks = call(0);
    if let Handler::Call(calling) = &mut asks {
        calling.topics = vec!["a".into(), "b".into()];
    }
    assert_eq!(asks.topics(), ["a", "b"]);
}

#[test]
fn callables_move_behind_those_of_the_plan() {
    assert_eq!(retry(call(1)).behind(5), retry(call(6)));
    assert_eq!(Handler::Fail.behind(5), Handler::Fail);
    assert!(call(0).waits());
    assert!(retry(Handler::Fail).waits());
    assert!(!Handler::Dlq("bad".into()).waits());
}

#[test]
fn it_crosses_the_border_as_words_and_objects() {
    let text = r#"{"retry":{"times":2,"backoff_ms":10,"then":{"dlq":"bad"}}}"#;
    let handler: Handler = serde_json::from_str(text).unwrap();
    assert_eq!(handler, retry(Handler::Dlq("bad".into())));
    assert_eq!(serde_json::to_string(&handler).unwrap(), text);
    assert_eq!(
        serde_json::from_str::<Handler>("\"continue\"").unwrap(),
        Handler::Continue
    );
}

#[test]
fn nearer_handlers_override_farther_ones() {
    let near = Handlers {
        processing: Some(Handler::Continue),
        ..Handlers::default()
    };
    let far = Handlers {
        processing: Some(Handler::Fail),
        production: Some(Handler::Fail),
        ..Handlers::default()
    };
    let both = near.or(&far);
    assert_eq!(both.processing, Some(Handler::Continue));
    assert_eq!(both.production, Some(Handler::Fail));
    assert_eq!(both.deserialization, None);
}
