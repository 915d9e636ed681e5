//! No import cycle of more than two files within a crate.
//!
//! Takes the sources, returns each cycle with its files. A file may use the modules that contain it: a
//! module and the files below it count as one. `tidy.toml` lists the known cycles, which may only become
//! smaller.

use crate::Finding;
use crate::exceptions::{Exceptions, FILE_NAME};
use crate::imports::{Resolver, imports};
use crate::rust::RustFile;
use std::collections::{BTreeMap, BTreeSet};

type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

const MAX_FILES_IN_CYCLE: usize = 2;

/// Cycles that are not exceptions, and exceptions that are no longer cycles.
pub fn check(exceptions: &Exceptions, files: &[RustFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    let owners: BTreeSet<_> = files.iter().map(|f| f.owner.as_str()).collect();
    for owner in owners {
        let own: Vec<_> = files
            .iter()
            .filter(|f| f.owner == owner && !f.is_test())
            .collect();
        for cycle in cycles(&graph(&own)) {
            let known = exceptions
                .circles
                .iter()
                .find(|(_, known)| cycle.iter().all(|path| known.iter().any(|k| k == path)));
            if let Some((name, _)) = known {
                used.insert(name);
                continue;
            }
            let what = format!(
                "these files import each other in a circle: {}. Move what they share into a file of its own",
                cycle.join(", ")
            );
            findings.push(Finding::new(cycle[0], 0, what));
        }
    }
    for name in exceptions
        .circles
        .keys()
        .filter(|name| !used.contains(name))
    {
        findings.push(Finding::new(
            FILE_NAME,
            0,
            format!("[circles] '{name}' is none any more: remove the line"),
        ));
    }
    findings
}

/// The files of a crate that each file imports.
fn graph<'a>(files: &[&'a RustFile]) -> Graph<'a> {
    let resolver = Resolver::new(files);
    let mut graph = Graph::new();
    for file in files {
        let targets = graph.entry(file.path.as_str()).or_default();
        for import in imports(&file.code, |name| resolver.has_child(file, name)) {
            let Some(target) = resolver
                .resolve(file, &import.path)
                .filter(|_| !import.public)
            else {
                continue;
            };
            if !file.module.starts_with(&target.module) {
                targets.insert(target.path.as_str());
            }
        }
    }
    graph
}

/// Sets of files that reach each other and are larger than allowed.
fn cycles<'a>(graph: &Graph<'a>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|path| (*path, reachable_from(graph, path)))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (path, reachable) in &reached {
        if seen.contains(path) || !reachable.contains(path) {
            continue;
        }
        let cycle: Vec<&str> = reachable
            .iter()
            .copied()
            .filter(|other| reached[other].contains(path))
            .collect();
        seen.extend(cycle.iter().copied());
        if cycle.len() > MAX_FILES_IN_CYCLE {
            found.push(cycle);
        }
    }
    found
}

fn reachable_from<'a>(graph: &Graph<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut next: Vec<&str> = graph[from].iter().copied().collect();
    while let Some(path) = next.pop() {
        if found.insert(path) {
            next.extend(graph[path].iter().copied());
        }
    }
    found
}
