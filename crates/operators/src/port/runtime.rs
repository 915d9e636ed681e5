//! The port to the host language's runtime: threads, pauses, exceptions.
//!
//! Takes the life of a thread, a wait, or an error whose cause is a foreign exception. Without one (tests,
//! the simulator) nobody waits and exceptions have no traceback. Never calls a function of the user.

use std::fmt::Debug;
use std::time::Duration;
use stoatflow_core::Error;

/// What a foreign exception says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// Its class.
    pub class: String,
    /// Its text.
    pub message: String,
    /// Where it came from.
    pub traceback: Option<String>,
}

/// See the module.
pub trait Runtime: Send + Sync + Debug {
    /// Runs all that a thread ever does, as a thread that the interpreter knows: what functions keep by
    /// thread stays, and each batch only comes back to it.
    fn host(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }

    /// Waits, without keeping the interpreter from others. False, and at once, if the application is asked
    /// to end.
    fn pause(&self, time: Duration) -> bool;
    /// Does a barrier wait for all async calls, however long they take? Then none outlives its epoch, and
    /// what comes out doesn't depend on how fast they are: for tests.
    fn patient(&self) -> bool {
        false
    }
    /// Where its threads are, as text, with these names for them. May wait for the interpreter.
    fn stacks(&self, named: &[(u64, String)]) -> Option<String> {
        let _unused = named;
        None
    }
    /// The foreign exception behind an error, if there is one.
    fn exception(&self, error: &Error) -> Option<Raised>;
}
