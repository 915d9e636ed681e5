//! Tells the crate which interpreter it is built for: `Py_GIL_DISABLED` is set for a free-threaded one.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
