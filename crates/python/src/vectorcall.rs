//! Calls Python functions with positional arguments, without creating a tuple.
//!
//! Takes a callable and its arguments, returns its result. The stable ABI has `PyObject_Vectorcall` only
//! from 3.12 on, and wheels are built for 3.10; but every CPython since 3.9 exports the function, so it
//! is looked up by name once. If it isn't found (a Python that hides its symbols), the arguments are
//! passed in a tuple. Never attaches.

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::OnceLock;

/// `PyObject_Vectorcall`: callable, arguments, their number (with a flag), names of keyword arguments.
type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// Tells the callee that it may overwrite the slot before the arguments
/// (`PY_VECTORCALL_ARGUMENTS_OFFSET`).
const ARGUMENTS_OFFSET_FLAG: usize = 1 << (usize::BITS - 1);

/// Maximum number of arguments.
const MAX_ARGUMENTS: usize = 3;

static VECTORCALL: OnceLock<Option<Vectorcall>> = OnceLock::new();

#[cfg(unix)]
fn find() -> Option<Vectorcall> {
    // SAFETY: the name is a C string; the default handle searches all loaded objects, including the
    // interpreter.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyObject_Vectorcall".as_ptr()) };
    // SAFETY: a function of this name has had this signature in every CPython that has it. Null becomes
    // `None`.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<Vectorcall>>(found) }
}

#[cfg(not(unix))]
fn find() -> Option<Vectorcall> {
    None
}

/// Calls with positional arguments.
///
/// # Errors
/// The exception that the callable raised.
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    match VECTORCALL.get_or_init(find) {
        Some(vectorcall) => call_with(*vectorcall, callable, &arguments),
        None => callable.call1(PyTuple::new(callable.py(), arguments)?),
    }
}

fn call_with<'py, const N: usize>(
    vectorcall: Vectorcall,
    callable: &Bound<'py, PyAny>,
    arguments: &[Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    const { assert!(N <= MAX_ARGUMENTS, "there is room for so many arguments") };
    // The slot before the arguments belongs to the callee: a bound method puts its object there instead
    // of copying all arguments.
    let mut places = [std::ptr::null_mut(); MAX_ARGUMENTS + 1];
    for (place, argument) in places[1..].iter_mut().zip(arguments) {
        *place = argument.as_ptr();
    }
    // SAFETY: the interpreter is attached, and the callable and its arguments are held during the call;
    // the slot before them may be written, as the flag says. The call returns a new reference, or null
    // and an exception.
    unsafe {
        let given = places.as_mut_ptr().add(1);
        let result = vectorcall(
            callable.as_ptr(),
            given,
            N | ARGUMENTS_OFFSET_FLAG,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}
