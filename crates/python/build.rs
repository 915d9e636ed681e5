//! Tells the crate which interpreter it is built for: `Py_GIL_DISABLED` is set for a free-threaded one. Has
//! the linker put the guard of `crates/client-guard` before a function of librdkafka.

#[allow(clippy::disallowed_methods)] // cargo tells a build script what it builds for by nothing else
fn main() {
    pyo3_build_config::use_pyo3_cfgs();
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap=rd_kafkap_leader_discovery_set_topic");
    }
}
