//! Which callers can use the host, and which are refused.

use super::{Lent, Refused};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// What a host's methods do: they use it, and call back with it.
trait Counts {
    fn add(&mut self, n: u64) -> u64;
    fn add_around(&mut self, f: &mut dyn FnMut(&mut dyn Counts)) -> u64;
}

impl Counts for u64 {
    fn add(&mut self, n: u64) -> u64 {
        *self += n;
        *self
    }

    fn add_around(&mut self, f: &mut dyn FnMut(&mut dyn Counts)) -> u64 {
        *self += 1;
        f(self);
        *self += 1;
        *self
    }
}

type Scope = Lent<dyn Counts, u32>;

/// The pointer without the lifetime of the host's borrows.
fn erased(host: &mut dyn Counts) -> *mut (dyn Counts + 'static) {
    // SAFETY: only a lifetime changes, and each test drops its guard before the host.
    unsafe { std::mem::transmute(std::ptr::from_mut(host)) }
}

#[test]
fn only_a_call_has_it() {
    let scope = Scope::new();
    assert_eq!(scope.with(|_, _| ()), Err(Refused::Closed));
    let mut host = 5u64;
    // SAFETY: the guard is dropped before the host is used again.
    let open = unsafe { scope.open(erased(&mut host), 1) };
    assert_eq!(scope.with(|host, at| (host.add(2), *at)), Ok((7, 1)));
    scope.set(2);
    assert_eq!(scope.with(|host, at| (host.add(2), *at)), Ok((9, 2)));
    drop(open);
    assert_eq!(scope.with(|_, _| ()), Err(Refused::Closed));
    assert_eq!(host, 9);
}

#[test]
fn one_at_a_time_and_on_its_own_thread() {
    let scope = Scope::new();
    let mut host = 0u64;
    // SAFETY: the guard is dropped before the host.
    let open = unsafe { scope.open(erased(&mut host), 0) };
    let inner = scope.with(|host, _| (host.add(1), scope.with(|_, _| ())));
    assert_eq!(inner, Ok((1, Err(Refused::Busy))));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                for _ in 0..50 {
                    // While another thread has taken it out, the host is busy.
                    let refused = scope.with(|_, _| ()).unwrap_err();
                    assert!(matches!(refused, Refused::OtherThread | Refused::Busy));
                }
            });
        }
        for _ in 0..50 {
            assert!(scope.with(|host, _| host.add(1)).is_ok());
        }
    });
    drop(open);
    assert_eq!(host, 51);
}

#[test]
fn code_that_is_called_meanwhile_has_it_too() {
    let scope = Scope::new();
    let mut host = 0u64;
    // SAFETY: the guard is dropped before the host.
    let open = unsafe { scope.open(erased(&mut host), 7) };
    let done = scope.with_calls(|host, calls| {
        assert_eq!(*calls.context(), 7);
        host.add_around(&mut |host| {
            // SAFETY: the host is not used while the call runs.
            let seen =
                unsafe { calls.call(erased(host), || scope.with(|host, at| (host.add(10), *at))) };
            assert_eq!(seen, Ok((11, 7)));
            assert_eq!(
                scope.with(|_, _| ()),
                Err(Refused::Busy),
                "the call is over"
            );
            host.add(100);
        })
    });
    assert_eq!(done, Ok(112));
    assert_eq!(scope.with(|host, at| (host.add(0), *at)), Ok((112, 7)));
    drop(open);
    assert_eq!(host, 112);
}

#[test]
fn a_panic_leaves_it_shut() {
    let scope = Scope::new();
    for inside in [false, true] {
        let mut host = 0u64;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the guard is dropped before the host.
            let _open = unsafe { scope.open(erased(&mut host), 0) };
            let _never = scope.with_calls(|host, calls| {
                if !inside {
                    panic!("a host");
                }
                // SAFETY: the host is not used while the call runs.
                unsafe { calls.call(erased(host), || panic!("what it calls")) }
            });
        }));
        assert!(ended.is_err());
        assert_eq!(scope.with(|_, _| ()), Err(Refused::Closed));
    }
}
