//! Calls of Python functions with positional arguments, without a tuple for them.
//!
//! Takes a callable and its arguments, gives what it returned. The stable ABI has `PyObject_Vectorcall` from
//! 3.12 on, and wheels are for 3.10: but every CPython since 3.9 has the function, so it is looked up by its
//! name once, and where it isn't found (a Python that hides its symbols), arguments go in a tuple. Never
//! attaches.

use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::OnceLock;

/// `PyObject_Vectorcall`: callable, arguments, how many (and a flag), names of those that have one.
type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// Says that the place before the arguments may be written (`PY_VECTORCALL_ARGUMENTS_OFFSET`).
const ROOM_BEFORE: usize = 1 << (usize::BITS - 1);

/// No function is called with more.
const MOST: usize = 3;

static VECTORCALL: OnceLock<Option<Vectorcall>> = OnceLock::new();

#[cfg(unix)]
fn find() -> Option<Vectorcall> {
    // SAFETY: the name is a C string; the default handle searches what is loaded, the interpreter among it.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"PyObject_Vectorcall".as_ptr()) };
    // SAFETY: a function of this name has had this signature in every CPython that has it. A null is `None`.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<Vectorcall>>(found) }
}

#[cfg(not(unix))]
fn find() -> Option<Vectorcall> {
    None
}

/// Calls with the arguments, in their order.
///
/// # Errors
/// What the callable raised.
pub fn call<'py, const N: usize>(
    callable: &Bound<'py, PyAny>,
    arguments: [Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    match VECTORCALL.get_or_init(find) {
        Some(vectorcall) => with(*vectorcall, callable, &arguments),
        None => callable.call1(PyTuple::new(callable.py(), arguments)?),
    }
}

fn with<'py, const N: usize>(
    vectorcall: Vectorcall,
    callable: &Bound<'py, PyAny>,
    arguments: &[Bound<'py, PyAny>; N],
) -> PyResult<Bound<'py, PyAny>> {
    const { assert!(N <= MOST, "there is room for so many arguments") };
    // One place before the arguments is the callee's: a bound method puts its object there instead
    // of copying all.
    let mut places = [std::ptr::null_mut(); MOST + 1];
    for (place, argument) in places[1..].iter_mut().zip(arguments) {
        *place = argument.as_ptr();
    }
    // SAFETY: the interpreter is attached, and the callable and its arguments are held for the time
    // of the call; they begin behind a place that may be written, as the flag says. It gives a new
    // reference, or null and an exception.
    unsafe {
        let given = places.as_mut_ptr().add(1);
        let result = vectorcall(
            callable.as_ptr(),
            given,
            N | ROOM_BEFORE,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(callable.py(), result)
    }
}
