//! Tidy itself: it must catch a tree that breaks a rule, and pass one that breaks none.

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

const TIDY: &str = "\
[same_name]

[circles]

[long_functions]
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
    write(root, "tidy.toml", TIDY);
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

/// Breaks a clean tree in one way and expects one finding, with place and text.
fn assert_finding(break_tree: impl FnOnce(&Path), expected: &str) {
    let folder = clean();
    break_tree(folder.path());
    let found = findings(folder.path());
    assert_eq!(found.len(), 1, "{expected}: {found:?}");
    assert!(found[0].contains(expected), "{expected}: {found:?}");
}

#[test]
fn a_clean_tree_has_no_findings() {
    assert_eq!(findings(clean().path()), Vec::<String>::new());
}

#[test]
fn wrong_dependencies_are_caught() {
    assert_finding(
        |r| manifest(r, "core", "stoatflow-plan = { path = \"../plan\" }"),
        "crates/core/Cargo.toml: 'core' must not use 'plan'",
    );
    assert_finding(
        |r| manifest(r, "plan", "tokio = \"1\""),
        "'plan' must stay without tokio",
    );
    assert_finding(
        |r| manifest(r, "plan", "rdkafka = \"0.39\""),
        "only log/src/kafka may use rdkafka",
    );
    let unknown = |r: &Path| {
        manifest(r, "new", "");
        write(r, "crates/new/src/lib.rs", "");
    };
    assert_finding(unknown, "the crate 'new' has no line in layers.toml");
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
fn external_crates_outside_their_modules_are_caught() {
    for line in [
        "use rdkafka::Message;\n",
        "fn f() -> rdkafka::Offset { g() }\n",
        "extern crate rdkafka;\n",
        "use ::rdkafka::X;\n",
    ] {
        assert_finding(
            |r| write(r, "crates/log/src/port.rs", line),
            "crates/log/src/port.rs:1: only log/src/kafka may name rdkafka",
        );
    }
    assert_finding(
        |r| write(r, "crates/log/src/kafkaesque.rs", "use rdkafka::X;\n"),
        "may name rdkafka",
    );
}

#[test]
fn long_files_are_caught() {
    assert_finding(
        |r| write(r, "crates/plan/src/long.rs", &"//\n".repeat(601)),
        "has 601 lines",
    );
    assert_finding(
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
fn public_types_of_one_name_are_caught() {
    let twice = |r: &Path| {
        write(r, "crates/core/src/a.rs", "pub struct Slot<T>(T);\n");
        write(r, "crates/plan/src/b.rs", "//\n    pub enum Slot {}\n");
    };
    assert_finding(
        twice,
        "crates/core/src/a.rs:1: the public type 'Slot' is also in crates/plan/src/b.rs:2",
    );
    let folder = clean();
    let root = folder.path();
    twice(root);
    write(
        root,
        "tidy.toml",
        "[same_name]\nSlot = [\"a word of both\"]\n",
    );
    assert!(findings(root).is_empty());
    // Types that aren't public, types in tests, and types only named in a comment or a text.
    write(root, "tidy.toml", TIDY);
    for other in [
        "struct Slot;\n",
        "pub(crate) struct Slot;\n",
        "// pub struct Slot;\n",
        "/*\npub struct Slot;\n*/\n",
        "const A: &str = r#\"\npub struct Slot;\n\"#;\n",
        "pub struct Slots;\n",
    ] {
        write(root, "crates/plan/src/b.rs", other);
        assert!(findings(root).is_empty(), "{other}");
    }
    write(root, "crates/plan/src/b.rs", "");
    write(root, "crates/plan/src/b/tests.rs", "pub struct Slot;\n");
    assert!(findings(root).is_empty());
    assert_finding(
        |r| write(r, "tidy.toml", "[same_name]\nSlot = [\"no longer\"]\n"),
        "tidy.toml: [same_name] 'Slot' is unique now",
    );
}

/// Three files in a cycle, one of them through a re-exported name.
fn import_cycle(root: &Path) {
    write(
        root,
        "crates/plan/src/lib.rs",
        "mod a;\npub mod b;\nmod c;\npub use c::Last;\n",
    );
    write(
        root,
        "crates/plan/src/a.rs",
        "use crate::b::{self, inner::{Deep, X as Y}};\n",
    );
    write(
        root,
        "crates/plan/src/b.rs",
        "mod inner;\npub fn f() -> crate::Last { g() }\n",
    );
    write(
        root,
        "crates/plan/src/b/inner.rs",
        "use super::f;\npub struct Deep;\n",
    );
    write(
        root,
        "crates/plan/src/c.rs",
        "use super::a::Thing;\npub struct Last;\n",
    );
}

const CYCLE: &str = "crates/plan/src/a.rs, crates/plan/src/b.rs, crates/plan/src/c.rs";

#[test]
fn import_cycles_are_caught() {
    assert_finding(
        import_cycle,
        &format!("crates/plan/src/a.rs: these files import each other in a circle: {CYCLE}."),
    );
    let folder = clean();
    let root = folder.path();
    import_cycle(root);
    let list = CYCLE.replace(", ", "\", \"");
    write(
        root,
        "tidy.toml",
        &format!("[circles]\nwords = [\"{list}\"]\n"),
    );
    assert!(findings(root).is_empty());
    // A cycle larger than the listed one.
    write(
        root,
        "crates/plan/src/c.rs",
        "use super::d::Other;\npub struct Last;\n",
    );
    write(root, "crates/plan/src/d.rs", "use crate::a::Thing;\n");
    let found = findings(root);
    assert!(
        found.iter().any(|f| f.contains("crates/plan/src/d.rs")),
        "{found:?}"
    );
    assert_finding(
        |r| {
            write(
                r,
                "tidy.toml",
                "[circles]\nwords = [\"crates/plan/src/a.rs\"]\n",
            )
        },
        "tidy.toml: [circles] 'words' is none any more",
    );
}

#[test]
fn harmless_imports_are_no_cycle() {
    let folder = clean();
    let root = folder.path();
    import_cycle(root);
    for harmless in [
        "pub struct Last;\n",
        "// use crate::a::Thing;\npub struct Last;\n",
        "pub use crate::a::Thing;\npub struct Last;\n",
        "use crate::b::f;\npub struct Last;\n",
        "use a::Thing;\nuse std::b::Thing;\npub struct Last;\n",
    ] {
        write(root, "crates/plan/src/c.rs", harmless);
        assert_eq!(findings(root), Vec::<String>::new(), "{harmless}");
    }
    // A module and the files below it.
    write(
        root,
        "crates/plan/src/b.rs",
        "mod inner;\nmod two;\nuse inner::A;\nuse two::B;\npub struct P;\n",
    );
    write(
        root,
        "crates/plan/src/b/inner.rs",
        "use super::P;\npub struct A;\n",
    );
    write(
        root,
        "crates/plan/src/b/two.rs",
        "use crate::b::P;\npub struct B;\n",
    );
    assert_eq!(findings(root), Vec::<String>::new());
}

#[test]
fn wide_prose_is_caught() {
    let wide = "word ".repeat(25);
    for (path, start) in [
        ("docs/a.md", ""),
        ("docs/a.md", "- "),
        ("crates/plan/src/a.rs", "/// "),
        ("python/stoatflow/a.py", "    # "),
        ("scripts/a.sh", "# "),
    ] {
        assert_finding(
            |r| write(r, path, &format!("\n{start}{wide}\n")),
            &format!("{path}:2: has "),
        );
    }
    let folder = clean();
    let root = folder.path();
    let long = "x".repeat(130);
    let table = format!(
        "| {wide} |\n\n```text\n{wide}\n```\n[{long}]\n`{wide}`\n{}\n",
        "é ".repeat(50)
    );
    write(root, "docs/a.md", &table);
    write(
        root,
        "crates/plan/src/a.rs",
        &format!("const A: &str = \"{wide}\";\n"),
    );
    assert_eq!(findings(root), Vec::<String>::new());
}

#[test]
fn long_functions_are_caught() {
    let rust = format!(
        "impl A {{\n    fn long(a: [u8; 2]) {{\n{}    }}\n}}\n",
        "        f('{', \"}\");\n".repeat(99)
    );
    let python = format!(
        "async def long(\n    a: int,\n) -> None:\n{}\n\nx = 1\n",
        "    f()\n".repeat(98)
    );
    for (path, text, line) in [
        ("crates/plan/src/a.rs", &rust, 2),
        ("python/stoatflow/a.py", &python, 1),
    ] {
        let at_limit = text
            .replacen("f('{', \"}\");\n", "", 1)
            .replacen("    f()\n", "", 1);
        let folder = clean();
        write(folder.path(), path, &at_limit);
        assert_eq!(findings(folder.path()), Vec::<String>::new());
        assert_finding(
            |r| write(r, path, text),
            &format!("{path}:{line}: 'long' has 101 lines, 100 is the limit"),
        );
        let listed = |reason: &str| format!("[long_functions]\n\"{path} long\" = [\"{reason}\"]\n");
        write(folder.path(), path, text);
        write(folder.path(), "tidy.toml", &listed("one table"));
        assert_eq!(findings(folder.path()), Vec::<String>::new());
        assert_finding(
            |r| {
                write(r, path, text);
                write(r, "tidy.toml", &listed(" "));
            },
            "has no reason",
        );
        assert_finding(
            |r| write(r, "tidy.toml", &listed("one table")),
            "isn't too long: remove the line",
        );
    }
}

#[test]
fn meaningless_file_names_are_caught() {
    for name in ["utils", "helpers", "common", "misc", "manager", "types"] {
        assert_finding(
            |r| write(r, &format!("crates/plan/src/{name}.rs"), ""),
            &format!("the name '{name}' says nothing"),
        );
        assert_finding(
            |r| write(r, &format!("python/stoatflow/{name}/x.py"), ""),
            &format!("the name '{name}' says nothing"),
        );
    }
}

#[test]
fn banned_words_are_caught() {
    for word in super::text::banned() {
        assert_finding(
            |r| {
                write(
                    r,
                    "crates/plan/src/x.rs",
                    &format!("\nlet x = \"{word}\";\n"),
                )
            },
            "crates/plan/src/x.rs:2: '",
        );
        assert_finding(
            |r| write(r, "python/stoatflow/x.py", &format!("# {word} \n")),
            "x.py:1: '",
        );
    }
}

#[test]
fn tests_inside_sources_are_caught() {
    let inside = concat!("#[cfg(test)]\nmod ", "tests {\n}\n");
    assert_finding(
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
        "[may_use]\na = []\na = []\n",
    ] {
        for list in ["layers.toml", "tidy.toml"] {
            let folder = clean();
            write(folder.path(), list, text);
            let error = tidy(folder.path()).expect_err("refused");
            assert!(
                error.contains("line ") || error.contains("table 'nothing'"),
                "{text}: {error}"
            );
        }
    }
}

/// Checks this workspace.
#[test]
fn the_layers_of_this_workspace_are_readable() {
    // Clones may share a target directory; a test runs in the directory of its crate.
    let layers = super::layers::read(Path::new("../../layers.toml")).expect("readable");
    assert_eq!(layers.may_use["plan"], ["core", "formats"]);
    assert!(layers.never["tokio"].contains(&"protocol".to_owned()));
}
