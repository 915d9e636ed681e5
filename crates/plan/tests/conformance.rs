//! `describe()` byte for byte as Kafka Streams 4.1.2 printed it.

mod loader;

use loader::{compile, folder, plan};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// The topologies of all vectors, by name.
fn topologies() -> BTreeMap<String, Vec<Value>> {
    let mut all = BTreeMap::new();
    for entry in
        fs::read_dir(folder("tests/conformance/vectors")).expect("the vectors are in the tree")
    {
        let path = entry.expect("readable").path();
        let case: Value =
            serde_json::from_slice(&fs::read(&path).expect("readable")).expect("valid JSON");
        let name = case["name"]
            .as_str()
            .expect("named")
            .split('/')
            .next()
            .expect("has a topology")
            .to_owned();
        all.insert(
            name,
            case["topology"].as_array().expect("has steps").clone(),
        );
    }
    all
}

#[test]
fn every_recorded_text_of_the_vectors_matches() {
    let topologies = topologies();
    let mut compared = 0;
    let mut wrong = Vec::new();
    for entry in
        fs::read_dir(folder("tests/conformance/describe")).expect("the texts are in the tree")
    {
        let path = entry.expect("readable").path();
        let name = path
            .file_stem()
            .expect("has a name")
            .to_string_lossy()
            .into_owned();
        let expected = fs::read_to_string(&path).expect("readable");
        let described = compile(&plan(&topologies[&name])).description;
        if described != expected {
            wrong.push(format!("=== {name}\n{described}\n--- expected\n{expected}"));
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 27, "{compared}");
}

/// Repartition and changelog topics have the names that Kafka Streams gave them.
#[test]
fn internal_topics_have_their_names() {
    let mut checked = 0;
    for entry in
        fs::read_dir(folder("tests/conformance/vectors")).expect("the vectors are in the tree")
    {
        let path = entry.expect("readable").path();
        let case: Value =
            serde_json::from_slice(&fs::read(&path).expect("readable")).expect("valid JSON");
        let Some(topics) = case.get("internal_topics").and_then(Value::as_array) else {
            continue;
        };
        let physical = compile(&plan(case["topology"].as_array().expect("has steps")));
        for topic in topics {
            let topic = topic
                .as_str()
                .expect("a text")
                .trim_start_matches("golden-");
            let known = match topic.strip_suffix("-changelog") {
                Some(store) => physical.stores.iter().any(|s| s.name == store && s.logged),
                // Repartition topics are exchanges here; their names show in the text.
                None => physical.description.contains(&format!("(topic: {topic})")),
            };
            assert!(known, "{}: {topic}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 40, "{checked}");
}

#[test]
fn every_vector_compiles() {
    let topologies = topologies();
    assert!(topologies.len() >= 150, "{}", topologies.len());
    for (name, steps) in topologies {
        let description = compile(&plan(&steps)).description;
        assert!(
            description.starts_with("Topologies:\n   Sub-topology: 0"),
            "{name}: {description}"
        );
    }
}

/// Topologies of every shape that the calls allow, each with the text that Kafka Streams printed.
#[test]
fn recorded_texts_of_generated_topologies_match() {
    let cases = fs::read(folder("crates/plan/tests/describe/cases.json"))
        .expect("the cases are in the tree");
    let cases: Vec<Value> = serde_json::from_slice(&cases).expect("valid JSON");
    assert!(cases.len() >= 50);
    for case in cases {
        let steps = case["topology"].as_array().expect("has steps");
        let plan = plan(steps);
        assert_eq!(
            compile(&plan).description,
            case["description"].as_str().expect("has a text"),
            "{}",
            case["name"]
        );
    }
}
