//! The metadata of a committed offset, and the watermark rules of sources.

use super::*;

#[test]
fn how_far_time_has_come_survives_its_metadata() {
    let all = Progress {
        stream_time: Timestamp(1_700),
        watermark: 1_600,
        application: 1_500,
        leader_epoch: 4,
    };
    assert_eq!(all.encode(), "st=1700;wm=1600;aw=1500;le=4");
    for progress in [
        all,
        Progress::NONE,
        Progress {
            watermark: -1,
            ..all
        },
        Progress {
            stream_time: Timestamp::UNKNOWN,
            ..all
        },
        Progress {
            leader_epoch: -1,
            ..all
        },
    ] {
        assert_eq!(Progress::decode(&progress.encode()), progress);
        let marked = format!("{};held", progress.encode());
        assert_eq!(Progress::decode(&marked), progress);
    }
}

#[test]
fn other_metadata_says_what_it_can() {
    let old = Progress::decode("st=60");
    assert_eq!((old.stream_time, old.watermark), (Timestamp(60), -1));
    for foreign in ["", "something", "st=", "st=x;aw=5", "aw=5", "5;wm=7"] {
        assert_eq!(Progress::decode(foreign), Progress::NONE, "{foreign}");
    }
    let newer = Progress::decode("st=60;wm=x;zz=9;aw=40;was=3;resetting");
    assert_eq!((newer.watermark, newer.application), (-1, 40));
}

fn source(watermark: Option<&str>) -> Source {
    let mut call = serde_json::json!(
        {"op": "stream", "topics": ["a"], "key": "bytes", "value": "bytes"});
    if let Some(text) = watermark {
        call["watermark"] = serde_json::from_str(text).unwrap();
    }
    let plan = serde_json::json!({"version": 1, "functions": [], "nodes": [call]});
    let plan = stoatflow_plan::compile(plan.to_string().as_bytes()).unwrap();
    plan.sources[0].clone()
}

#[test]
fn a_source_says_it_or_the_settings_do() {
    let default = WatermarkDefault {
        delay_ms: Some(5),
        idle_after: Some(Duration::from_secs(1)),
    };
    let mut groups = Vec::new();
    let mut of = |text: Option<&str>| {
        WatermarkOf::source(&source(text), default, &ForeignCode::default(), &mut groups).unwrap()
    };
    let by_settings = of(None);
    assert_eq!(by_settings.rule.strategy, Strategy::Bounded(5));
    assert_eq!(by_settings.rule.idle_after, default.idle_after);
    let own = of(Some(
        r#"{"strategy": {"bounded": 70}, "group": "g", "max_drift_ms": 9}"#,
    ));
    assert_eq!(own.rule.strategy, Strategy::Bounded(70));
    assert_eq!(own.rule.idle_after, None);
    assert_eq!(
        (&*own.shown, own.group.as_deref()),
        ("bounded(70 ms)", Some("g"))
    );
    let other = of(Some(
        r#"{"strategy": "monotonic", "idle_ms": 20, "group": "h"}"#,
    ));
    let again = of(Some(
        r#"{"strategy": "monotonic", "idle_ms": 20, "group": "g"}"#,
    ));
    let group = |w: &WatermarkOf| w.rule.aligned.unwrap().group;
    assert_eq!([group(&own), group(&other), group(&again)], [0, 1, 0]);
    assert!(!own.is_same(&other) && own.is_same(&own.clone()));
    assert_eq!(
        of(Some(r#"{"strategy": "none"}"#)).rule,
        Rule::of(Strategy::None)
    );
}
