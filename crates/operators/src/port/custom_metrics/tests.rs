//! What a metric of the user's may be, and what its series hold.

use super::*;

fn definition(name: &str, kind: MetricKind) -> MetricDefinition {
    MetricDefinition {
        name: name.to_owned(),
        help: "What it counts".to_owned(),
        kind,
        labels: vec!["shop".to_owned()],
        bounds: match kind {
            MetricKind::Histogram => vec![0.1, 1.0],
            _ => Vec::new(),
        },
        max_series: 3,
    }
}

fn values(value: &str) -> Vec<String> {
    vec![value.to_owned()]
}

#[test]
fn the_same_definition_is_the_same_metric() {
    let metrics = CustomMetrics::default();
    let first = metrics
        .define(definition("orders", MetricKind::Counter))
        .unwrap();
    let again = metrics
        .define(definition("orders_total", MetricKind::Counter))
        .unwrap();
    assert!(Arc::ptr_eq(&first, &again), "_total is added to the name");
    first.series(values("a")).add(2.0);
    again.series(values("a")).add(0.5);
    let all = metrics.all();
    assert_eq!(all.len(), 1);
    let [(labels, series)] = &all[0].all()[..] else {
        panic!("one series");
    };
    assert_eq!((labels, series.value()), (&values("a"), 2.5));
}

#[test]
fn names_that_clash_are_refused() {
    let metrics = CustomMetrics::default();
    metrics
        .define(definition("orders", MetricKind::Counter))
        .unwrap();
    metrics
        .define(definition("wait", MetricKind::Histogram))
        .unwrap();
    for (name, kind, clash) in [
        ("orders", MetricKind::Gauge, "twice"),
        ("orders_total", MetricKind::Gauge, "orders_total"),
        ("wait_sum", MetricKind::Counter, "wait_sum"),
        ("wait_count", MetricKind::Gauge, "wait_count"),
    ] {
        let error = metrics.define(definition(name, kind)).unwrap_err();
        assert!(error.to_string().contains(clash), "{name}: {error}");
        assert!(!error.next_step().is_empty(), "{name}");
    }
    let other_labels = MetricDefinition {
        labels: vec!["region".to_owned()],
        ..definition("orders", MetricKind::Counter)
    };
    assert!(metrics.define(other_labels).is_err());
    assert_eq!(metrics.all().len(), 2);
}

#[test]
fn wrong_definitions_are_refused() {
    let metrics = CustomMetrics::default();
    let good = || definition("wait", MetricKind::Histogram);
    let wrong = [
        MetricDefinition {
            name: "1st".to_owned(),
            ..good()
        },
        MetricDefinition {
            name: "a-b".to_owned(),
            ..good()
        },
        MetricDefinition {
            name: String::new(),
            ..good()
        },
        MetricDefinition {
            name: "stoatflow_mine".to_owned(),
            ..good()
        },
        MetricDefinition {
            name: "process_mine".to_owned(),
            ..good()
        },
        MetricDefinition {
            help: " ".to_owned(),
            ..good()
        },
        MetricDefinition {
            labels: values("le"),
            ..good()
        },
        MetricDefinition {
            labels: values("application_id"),
            ..good()
        },
        MetricDefinition {
            labels: values("__name__"),
            ..good()
        },
        MetricDefinition {
            labels: values("a b"),
            ..good()
        },
        MetricDefinition {
            labels: vec!["a".to_owned(), "a".to_owned()],
            ..good()
        },
        MetricDefinition {
            labels: (0..17).map(|n| format!("l{n}")).collect(),
            ..good()
        },
        MetricDefinition {
            bounds: Vec::new(),
            ..good()
        },
        MetricDefinition {
            bounds: vec![1.0, 1.0],
            ..good()
        },
        MetricDefinition {
            bounds: vec![1.0, f64::INFINITY],
            ..good()
        },
        MetricDefinition {
            bounds: vec![f64::NAN],
            ..good()
        },
        MetricDefinition {
            max_series: 0,
            ..good()
        },
    ];
    for wrong in wrong {
        let error = metrics.define(wrong.clone()).unwrap_err();
        assert_eq!(error.kind().name(), "config", "{wrong:?}");
        assert!(!error.next_step().is_empty(), "{wrong:?}");
    }
    assert!(metrics.all().is_empty());
}

#[test]
fn the_number_of_series_is_bounded() {
    let metrics = CustomMetrics::default();
    let metric = metrics
        .define(definition("orders", MetricKind::Counter))
        .unwrap();
    for customer in 0..1_000 {
        metric.series(values(&format!("c{customer}"))).add(1.0);
    }
    metric.series(values("c0")).add(1.0);
    let all = metric.all();
    assert_eq!(all.len(), 4, "three, and those of all others together");
    let value = |of: &str| all.iter().find(|(v, _)| v[0] == of).unwrap().1.value();
    assert_eq!((value("c0"), value(OTHER)), (2.0, 997.0));
    assert_eq!(metric.overflows(), 997);
    let long = "ä".repeat(1_000);
    let other = metrics
        .define(definition("long", MetricKind::Counter))
        .unwrap();
    other.series(values(&long)).add(1.0);
    assert_eq!(other.all()[0].0[0].chars().count(), MAX_VALUE_CHARS);
}

#[test]
fn the_number_of_metrics_is_bounded() {
    let metrics = CustomMetrics::default();
    for n in 0..MAX_METRICS {
        metrics
            .define(definition(&format!("m{n}"), MetricKind::Gauge))
            .unwrap();
    }
    let error = metrics
        .define(definition("more", MetricKind::Gauge))
        .unwrap_err();
    assert!(error.next_step().contains("labels"), "{error}");
}

#[test]
fn observations_are_counted_in_buckets() {
    let metrics = CustomMetrics::default();
    let metric = metrics
        .define(definition("wait", MetricKind::Histogram))
        .unwrap();
    let series = metric.series(values("a"));
    for value in [0.05, 0.1, 0.5, 7.0] {
        series.observe(&metric.definition.bounds, value);
    }
    assert_eq!(series.counts(), [2, 1, 1], "a bound belongs to its bucket");
    assert!((series.value() - 7.65).abs() < 1e-9);
}

#[test]
fn a_gauge_without_a_value_has_no_sample() {
    let metrics = CustomMetrics::default();
    let metric = metrics
        .define(MetricDefinition {
            labels: Vec::new(),
            ..definition("depth", MetricKind::Gauge)
        })
        .unwrap();
    assert!(metric.all().is_empty());
    let series = metric.series(Vec::new());
    series.set(4.0);
    series.add(-1.5);
    assert_eq!(metric.all()[0].1.value(), 2.5);
    series.unset();
    assert!(metric.all().is_empty());
    let counter = metrics
        .define(MetricDefinition {
            labels: Vec::new(),
            ..definition("orders", MetricKind::Counter)
        })
        .unwrap();
    assert_eq!(counter.all()[0].1.value(), 0.0, "0 before the first record");
}

#[test]
fn no_increase_is_lost_between_threads() {
    let metrics = CustomMetrics::default();
    let metric = metrics
        .define(definition("orders", MetricKind::Counter))
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    metric.series(values("a")).add(1.0);
                }
            });
        }
    });
    assert_eq!(metric.series(values("a")).value(), 40_000.0);
}
