//! How large blocks go back to the system.
//!
//! The client takes a block of up to 4 MiB for each answer of a broker, and gives it back soon. With glibc the first such
//! block that is given back raises the bound up to which blocks are cut from heaps: from then on they lie among small ones
//! that live longer, and heaps grow around them. A fixed bound keeps them apart: 13 of 96 MB in a job with JSON of 1 KB, and
//! no difference in CPU. Elsewhere than on glibc there is nothing to do. Never overrules who has set the bound himself.

/// Blocks of this size and more are mapped, one by one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 256 << 10;

/// See the module; for the whole process, and to be done again without harm.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(clippy::disallowed_methods)] // glibc's settings, not ours
pub(crate) fn set_mmap_threshold() {
    let said = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    let is_set = std::env::var_os("MALLOC_MMAP_THRESHOLD_").is_some();
    if !is_set && !said.contains("glibc.malloc.mmap_threshold") {
        // SAFETY: takes two numbers; glibc locks its own state.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// See the module.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) const fn set_mmap_threshold() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests;
