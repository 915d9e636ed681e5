//! Dependencies between crates.
//!
//! Takes `layers.toml` and the output of `cargo metadata --no-deps`, returns every dependency that
//! points the wrong way. Never reads sources.

use crate::Finding;
use crate::layers::Layers;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PREFIX: &str = "stoatflow-";

/// The output of `cargo metadata` for the workspace.
pub fn metadata(root: &Path) -> Result<Value, String> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(root.join("Cargo.toml"))
        .output()
        .map_err(|e| format!("can't run cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata gave no JSON: {e}"))
}

/// Dependencies that point the wrong way.
pub fn check(layers: &Layers, metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = without_prefix(package["name"].as_str().unwrap_or_default());
        let path = format!("crates/{name}/Cargo.toml");
        let mut add = |what: String| findings.push(Finding::new(&path, 0, what));
        let Some(allowed) = layers.may_use.get(name) else {
            add(format!(
                "the crate '{name}' has no line in layers.toml: say which crates it may use"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let full = dependency["name"].as_str().unwrap_or_default();
            let used = without_prefix(full);
            let dev = dependency["kind"].as_str() == Some("dev");
            if full != used || (dependency["path"].is_string() && layers.may_use.contains_key(used))
            {
                if !dev && !allowed.iter().any(|a| a == used) {
                    add(format!(
                        "'{name}' must not use '{used}': arrows point the other way (layers.toml)"
                    ));
                }
                continue;
            }
            if let Some(places) = layers.only_in.get(full)
                && !places.iter().any(|p| p.split('/').next() == Some(name))
            {
                add(format!("only {} may use {full}", places.join(", ")));
            }
            if !dev
                && layers
                    .never
                    .get(full)
                    .is_some_and(|n| n.iter().any(|c| c == name))
            {
                add(format!("'{name}' must stay without {full} (layers.toml)"));
            }
        }
    }
    findings
}

fn without_prefix(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}
