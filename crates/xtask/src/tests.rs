//! Tidy itself: a tree that breaks each rule must be caught, and one that breaks none must not.

use super::tidy;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const LAYERS: &str = "\
# comment
[may_use]
core = []
plan = [\"core\"]
log = [\"core\"]

[only_in]
rdkafka = [\"log/src/kafka\"]
rocksdb = [\"log/src/embedded\"]

[never]
tokio = [\"core\", \"plan\"]
";

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("has a folder")).expect("writable");
    fs::write(path, text).expect("writable");
}

fn manifest(root: &Path, name: &str, dependencies: &str) {
    let text = format!(
        "[package]\nname = \"stoatflow-{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}\n"
    );
    write(root, &format!("crates/{name}/Cargo.toml"), &text);
}

/// A small workspace that keeps all rules.
fn clean() -> TempDir {
    let folder = tempfile::tempdir().expect("writable");
    let root = folder.path();
    write(
        root,
        "Cargo.toml",
        "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n",
    );
    write(root, "layers.toml", LAYERS);
    manifest(root, "core", "");
    manifest(root, "plan", "stoatflow-core = { path = \"../core\" }");
    manifest(
        root,
        "log",
        "stoatflow-core = { path = \"../core\" }\nrdkafka = \"0.39\"\ntokio = \"1\"",
    );
    for name in ["core", "plan", "log"] {
        write(
            root,
            &format!("crates/{name}/src/lib.rs"),
            "//! Nothing.\n#[cfg(test)]\nmod tests;\n",
        );
    }
    write(
        root,
        "crates/log/src/kafka/mod.rs",
        "use rdkafka::ClientConfig;\n",
    );
    write(root, "crates/log/src/embedded.rs", "use rocksdb::DB;\n");
    write(
        root,
        "crates/log/src/port.rs",
        "use crate::rocksdb::Own; // not rdkafka::Message\n",
    );
    write(
        root,
        "python/stoatflow/app.py",
        "print('network/path is fine')\n",
    );
    folder
}

fn findings(root: &Path) -> Vec<String> {
    tidy(root)
        .expect("a readable tree")
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// Breaks a clean tree in one way and expects one finding, which says where and what.
fn caught(break_it: impl FnOnce(&Path), expected: &str) {
    let folder = clean();
    break_it(folder.path());
    let found = findings(folder.path());
    assert_eq!(found.len(), 1, "{expected}: {found:?}");
    assert!(found[0].contains(expected), "{expected}: {found:?}");
}

#[test]
fn a_clean_tree_has_no_findings() {
    assert_eq!(findings(clean().path()), Vec::<String>::new());
}

#[test]
fn wrong_arrows_are_caught() {
    caught(
        |r| manifest(r, "core", "stoatflow-plan = { path = \"../plan\" }"),
        "crates/core/Cargo.toml: 'core' must not use 'plan'",
    );
    caught(
        |r| manifest(r, "plan", "tokio = \"1\""),
        "'plan' must stay without tokio",
    );
    caught(
        |r| manifest(r, "plan", "rdkafka = \"0.39\""),
        "only log/src/kafka may use rdkafka",
    );
    let unknown = |r: &Path| {
        manifest(r, "new", "");
        write(r, "crates/new/src/lib.rs", "");
    };
    caught(unknown, "the crate 'new' has no line in layers.toml");
}

#[test]
fn dev_dependencies_are_free() {
    let folder = clean();
    let path = folder.path().join("crates/core/Cargo.toml");
    let text = fs::read_to_string(&path).expect("readable");
    fs::write(
        &path,
        format!("{text}\n[dev-dependencies]\ntokio = \"1\"\n"),
    )
    .expect("writable");
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}

#[test]
fn foreign_crates_outside_their_rooms_are_caught() {
    for line in [
        "use rdkafka::Message;\n",
        "fn f() -> rdkafka::Offset { g() }\n",
        "extern crate rdkafka;\n",
        "use ::rdkafka::X;\n",
    ] {
        caught(
            |r| write(r, "crates/log/src/port.rs", line),
            "crates/log/src/port.rs:1: only log/src/kafka may name rdkafka",
        );
    }
    caught(
        |r| write(r, "crates/log/src/kafkaesque.rs", "use rdkafka::X;\n"),
        "may name rdkafka",
    );
}

#[test]
fn long_files_are_caught() {
    caught(
        |r| write(r, "crates/plan/src/long.rs", &"//\n".repeat(601)),
        "has 601 lines",
    );
    caught(
        |r| write(r, "python/stoatflow/long.py", &"#\n".repeat(601)),
        "has 601 lines",
    );
    let folder = clean();
    write(
        folder.path(),
        "crates/plan/src/long.rs",
        &"//\n".repeat(600),
    );
    assert!(findings(folder.path()).is_empty());
}

#[test]
fn names_that_say_nothing_are_caught() {
    for name in ["utils", "helpers", "common", "misc", "manager", "types"] {
        caught(
            |r| write(r, &format!("crates/plan/src/{name}.rs"), ""),
            &format!("the name '{name}' says nothing"),
        );
        caught(
            |r| write(r, &format!("python/stoatflow/{name}/x.py"), ""),
            &format!("the name '{name}' says nothing"),
        );
    }
}

#[test]
fn banned_words_are_caught() {
    for word in super::text::banned() {
        caught(
            |r| {
                write(
                    r,
                    "crates/plan/src/x.rs",
                    &format!("\nlet x = \"{word}\";\n"),
                )
            },
            "crates/plan/src/x.rs:2: '",
        );
        caught(
            |r| write(r, "python/stoatflow/x.py", &format!("# {word} \n")),
            "x.py:1: '",
        );
    }
}

#[test]
fn tests_inside_sources_are_caught() {
    let inside = concat!("#[cfg(test)]\nmod ", "tests {\n}\n");
    caught(
        |r| write(r, "crates/plan/src/x.rs", inside),
        "x.rs:2: tests live beside the source",
    );
}

#[test]
fn a_broken_list_of_layers_is_an_error() {
    for text in [
        "[nothing]\n",
        "core = []\n",
        "[may_use]\ncore = [\n",
        "[may_use]\nwhat\n",
    ] {
        let folder = clean();
        write(folder.path(), "layers.toml", text);
        assert!(
            tidy(folder.path()).expect_err("refused").contains("line "),
            "{text}"
        );
    }
}

/// The house itself.
#[test]
fn the_layers_of_this_workspace_are_readable() {
    let layers =
        super::layers::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../layers.toml"))
            .expect("readable");
    assert_eq!(layers.may_use["plan"], ["core", "formats"]);
    assert!(layers.never["tokio"].contains(&"protocol".to_owned()));
}
