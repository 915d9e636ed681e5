//! The largest allocation that a thread has requested.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which also records the sizes of requested allocations.
#[derive(Debug)]
pub struct Watched;

fn note(size: usize) {
    // While a thread ends, its thread-local may already be destroyed.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(size)));
}

// SAFETY: every call is forwarded to the system's allocator with unchanged arguments; only a number is
// recorded besides, without allocating memory.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller upholds the contract of this method.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Resets the largest allocation of this thread.
pub fn begin() {
    LARGEST.set(0);
}

/// The largest allocation of this thread since [`begin`].
pub fn largest() -> usize {
    LARGEST.get()
}
