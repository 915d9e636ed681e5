//! The port to the host language's runtime: threads, pauses, exceptions.
//!
//! Takes a thread's work, a wait, or an error whose cause is a foreign exception. Without a runtime
//! (tests, the simulator) pauses are skipped and exceptions have no traceback. Never calls a user
//! function.

use std::fmt::Debug;
use std::time::Duration;
use stoatflow_core::Error;

/// The details of a foreign exception.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// Its class.
    pub class: String,
    /// Its text.
    pub message: String,
    /// Where it came from.
    pub traceback: Option<String>,
}

/// A function call on the stack of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackFrame {
    /// The file of the function.
    pub file: String,
    /// The line that runs.
    pub line: u32,
    /// The function.
    pub function: String,
    /// The text of the line; empty if the source isn't there.
    pub code: String,
}

/// What a thread of the foreign runtime is executing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStack {
    /// The runtime's id of the thread.
    pub id: u64,
    /// The name that the runtime knows; `None` for threads that it didn't start.
    pub name: Option<String>,
    /// Its calls, the innermost one last.
    pub frames: Vec<StackFrame>,
}

/// See the module.
pub trait Runtime: Send + Sync + Debug {
    /// Runs all work of a thread, as a thread that the interpreter knows: data that functions keep by
    /// thread stays, and each batch only attaches again.
    fn host(&self, work: &mut (dyn FnMut() + Send)) {
        work();
    }

    /// Waits without holding the interpreter. Returns false, and at once, if the application is asked to
    /// end.
    fn pause(&self, time: Duration) -> bool;
    /// Whether a barrier waits for all async calls, however long they take. Then none outlives its
    /// epoch, and results don't depend on how fast they are: for tests.
    fn patient(&self) -> bool {
        false
    }
    /// The stacks of its threads, as text, with these names for them. May wait for the interpreter.
    fn stacks(&self, named: &[(u64, String)]) -> Option<String> {
        let _unused = named;
        None
    }
    /// The stacks of its threads, for the admin port. May wait for the interpreter.
    fn thread_stacks(&self) -> Option<Vec<ThreadStack>> {
        None
    }
    /// The foreign exception behind an error, if there is one.
    fn exception(&self, error: &Error) -> Option<Raised>;
}
