//! Sets `Py_GIL_DISABLED` for a free-threaded interpreter. Makes the linker route calls of a librdkafka
//! function through the guard in `crates/client-guard`.

#[allow(clippy::disallowed_methods)] // cargo passes the build target to build scripts through the environment only
fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    let lock = std::fs::read_to_string("../../Cargo.lock").unwrap_or_default();
    for name in ["kafka-protocol", "librocksdb-sys", "ring", "rustls"] {
        let version = locked(&lock, name);
        println!(
            "cargo::rustc-env=VERSION_OF_{}={version}",
            name.to_uppercase().replace('-', "_")
        );
    }
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    for name in ["TARGET", "PROFILE"] {
        let value = std::env::var(name).unwrap_or_default();
        println!("cargo::rustc-env=BUILD_{name}={value}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap=rd_kafkap_leader_discovery_set_topic");
    }
}

/// The version of a crate in the lock file.
fn locked(lock: &str, name: &str) -> String {
    let wanted = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != wanted).skip(1);
    let version = lines
        .next()
        .and_then(|line| line.strip_prefix("version = "));
    version.map_or_else(|| "unknown".to_owned(), |v| v.trim_matches('"').to_owned())
}
