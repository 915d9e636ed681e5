//! Fixes glibc's mmap threshold, so that large fetch buffers go back to the system.
//!
//! The Kafka client allocates up to 4 MiB per broker response and frees it soon. glibc raises its
//! dynamic mmap threshold when the first such block is freed; later ones then lie on the heap among
//! small blocks that live longer, and the heap grows. With a fixed threshold they stay apart: 13 of 96
//! MB less in a job with JSON of 1 KB, at the same CPU. Does nothing on other systems, or if the user
//! has set the threshold.

/// Blocks of at least this size are mapped one by one.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: libc::c_int = 256 << 10;

/// See the module. Affects the whole process; may be repeated.
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
