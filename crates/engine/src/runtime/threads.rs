//! The public handle of an application, and the threads that run it.
//!
//! Intake and commit have a thread each, since both wait for a broker. Lanes that run only native
//! code are tokio tasks; lanes that call user functions, which may block, have a thread each, so
//! that they never hold up a tokio worker (law 9). The admin port has threads of its own and answers
//! whatever lanes do (law 9).

use crate::admin::status::Status;
use crate::admin::{AdminAddress, AdminOptions, AdminView, close, serve};
use crate::query::StoreReaders;
use crate::query::followers::ChangesEnd;
use crate::restore::RestoreListener;
use crate::runtime::failpoint::Failpoints;
use crate::runtime::malloc::set_mmap_threshold;
use crate::runtime::shared::Shared;
use crate::startup::EngineSpec;
use crate::startup::components::Components;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;
use stoatflow_core::{Error, Result, Settings};
use stoatflow_log::Broker;
use stoatflow_operators::ForeignCode;
use stoatflow_plan::PhysicalPlan;
use stoatflow_protocol::Lifecycle;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

mod admin_target;
mod bodies;
mod ending;
mod fenced;
mod queries;
mod restarting;
mod run;
pub(crate) mod spawn;
mod start_line;
mod stop_request;
mod systemd;
mod watchdog;

pub use restarting::{RestartAnswer, Uncaught};

use admin_target::EngineTarget;
use spawn::{application_span, panicked, spawn};
use stop_request::{Current, Outcome, StopRequest, signal};
use systemd::Systemd;

/// `/health/ready` reports a stall after this long without a commit although records wait.
const STALL_AFTER: Duration = Duration::from_secs(45);

/// How many stores the admin port may read at a time.
const ADMIN_READERS: usize = 4;

/// Called with every change of state (old, new).
pub type Listener = Box<dyn Fn(Lifecycle, Lifecycle) + Send + Sync>;

/// A running application. Copies are handles of the same one.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    spec: EngineSpec,
    status: Arc<Status>,
    view: AdminView,
    listener: Option<Listener>,
    uncaught: Mutex<Option<Uncaught>>,
    shared: Mutex<Current>,
    admin: Mutex<Option<AdminAddress>>,
    /// The state of the current run, for queries.
    readers: StoreReaders,
    outcome: Mutex<Outcome>,
    ended: Condvar,
    /// The service manager, if this process is its service.
    systemd: Option<Systemd>,
}

impl Engine {
    /// An application that is not started yet.
    #[must_use]
    pub fn new(
        plan: Arc<PhysicalPlan>,
        foreign: Arc<ForeignCode>,
        settings: Settings,
        broker: Arc<dyn Broker>,
        view: impl Into<AdminView>,
        listener: Option<Listener>,
        on_restore: Option<RestoreListener>,
    ) -> Self {
        let status = Status::new(&settings.application_id, Arc::clone(&plan), settings.lanes);
        let status = Arc::new(status.calling(&foreign));
        let spec = EngineSpec {
            plan,
            foreign,
            settings: Arc::new(settings),
            components: Components {
                on_restore,
                ..Components::new(broker)
            },
        };
        Self {
            inner: Arc::new(Inner {
                spec,
                status,
                view: view.into(),
                listener,
                uncaught: Mutex::new(None),
                shared: Mutex::default(),
                admin: Mutex::new(None),
                readers: StoreReaders::default(),
                outcome: Mutex::default(),
                ended: Condvar::new(),
                systemd: Systemd::from_environment(),
            }),
        }
    }

    /// Sets the handler of errors that would end the application.
    pub fn on_uncaught(&self, ask: Uncaught) {
        *self.inner.uncaught.lock() = Some(ask);
    }

    /// Starts in the background. Later failures, such as an admin port that can't be opened, end
    /// the application: see [`Self::wait`].
    ///
    /// # Errors
    /// `Config` if it was started before, or if the environment arms a failpoint that doesn't exist.
    pub fn start(&self) -> Result<()> {
        let failpoints = Failpoints::from_environment()?;
        set_mmap_threshold();
        {
            let mut outcome = self.inner.outcome.lock();
            if std::mem::replace(&mut outcome.started, true) || outcome.over {
                return Err(Error::config("this application was started before")
                    .hint("create a new StoatFlow object"));
            }
        }
        let inner = Arc::clone(&self.inner);
        let span = application_span(&inner.status.application_id);
        let _of_this_application = span.enter();
        inner.status.errors.load(&inner.spec.settings.state_dir);
        let shared = inner.begin(&failpoints);
        inner.keep_systemd_informed();
        let runtime = Builder::new_multi_thread()
            .thread_name("stoatflow-worker")
            .on_thread_start({
                let span = span.clone();
                // A worker serves one application until it ends.
                move || std::mem::forget(span.clone().entered())
            })
            .enable_all()
            .build()
            .map_err(|e| Error::internal("the runtime can't start its threads").caused_by(e));
        let started = runtime.and_then(|runtime| {
            let (stop_admin, admin_stopped) = watch::channel(false);
            let admin = inner.open_admin(admin_stopped)?;
            let (inner, shared) = (Arc::clone(&inner), Arc::clone(&shared));
            spawn("stoatflow-main", move || {
                let guard = MainGuard(Arc::clone(&inner));
                inner.outcome.lock().main = Some(std::thread::current().id());
                let (result, shared) =
                    inner.run_with_restarts(shared, &failpoints, runtime.handle());
                (shared.followers).end(ChangesEnd::of(result.as_ref().err()));
                if let Some(admin) = admin {
                    close(admin, &stop_admin);
                }
                runtime.shutdown_timeout(Duration::from_secs(5));
                inner.end(result.err(), &shared);
                inner.outcome.lock().all_ended = true;
                shared.set_ended();
                drop(guard);
            })
        });
        if let Err(error) = started {
            inner.end(Some(error), &shared);
        }
        Ok(())
    }

    /// Requests a clean stop: drain, final barrier, commit. Becomes an abort after `within`.
    pub fn request_stop(&self, within: Option<Duration>) {
        let now = self.inner.spec.components.clock.monotonic();
        self.request(
            StopRequest::Stop,
            within.map(|within| now.saturating_add(within)),
        );
    }

    /// Stops without a commit. A user function that doesn't return is abandoned after a second or
    /// two.
    pub fn abort(&self) {
        self.request(StopRequest::Abort, None);
    }

    /// Stops reading: records that were read are committed, and nothing more is read until
    /// [`Self::resume`], in later runs too. Work that is due by the clock continues. Returns at once;
    /// the state becomes `PAUSED` when everything is committed.
    pub fn pause(&self) {
        self.set_paused(true);
    }

    /// Resumes reading.
    pub fn resume(&self) {
        self.set_paused(false);
    }

    /// True if reading is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.inner.shared.lock().paused
    }

    fn set_paused(&self, paused: bool) {
        let mut current = self.inner.shared.lock();
        current.paused = paused;
        if let Some(run) = &current.run {
            run.set_paused(paused);
        }
    }

    /// `shutdown.timeout.ms`.
    #[must_use]
    pub fn shutdown_timeout(&self) -> Duration {
        self.inner.spec.settings.shutdown_timeout
    }

    /// True if it has ended while one of its threads still runs. Such a thread will return to the
    /// interpreter, which must not be finalized meanwhile.
    #[must_use]
    pub fn has_abandoned_threads(&self) -> bool {
        let outcome = self.inner.outcome.lock();
        outcome.threads_abandoned && !outcome.all_ended
    }

    fn request(&self, what: StopRequest, stop_by: Option<Duration>) {
        let mut current = self.inner.shared.lock();
        current.requested = current.requested.max(what);
        current.stop_by = current.stop_by.or(stop_by);
        match &current.run {
            Some(shared) => signal(shared, what, stop_by),
            None => {
                let now = self.inner.spec.components.clock.now();
                self.inner.enter(Lifecycle::Stopped, now);
                self.inner.outcome.lock().over = true;
                self.inner.ended.notify_all();
            }
        }
    }

    /// Waits until it has ended; `false` if it hasn't within `timeout`. Every caller gets the
    /// error.
    ///
    /// For the thread that calls listeners, a final state counts as the end after `timeout`: a listener
    /// that waits would otherwise wait for itself.
    ///
    /// # Errors
    /// The error that ended the application.
    pub fn wait(&self, timeout: Option<Duration>) -> std::result::Result<bool, Arc<Error>> {
        let mut outcome = self.inner.outcome.lock();
        while !outcome.over {
            match timeout {
                None => self.inner.ended.wait(&mut outcome),
                Some(timeout) => {
                    let timed_out = self.inner.ended.wait_for(&mut outcome, timeout).timed_out();
                    if timed_out && !outcome.over {
                        // A listener called with the final state would wait for itself. For other
                        // callers the end counts only when listeners are done: a process that exits
                        // would take the interpreter away from them.
                        if outcome.main == Some(std::thread::current().id())
                            && self.inner.status.state().is_final()
                        {
                            break;
                        }
                        return Ok(false);
                    }
                }
            }
        }
        outcome.error.clone().map_or(Ok(true), Err)
    }

    /// Removes the local state of an application that isn't running; the next start restores it
    /// from the changelog topics.
    ///
    /// # Errors
    /// `Config` while it runs, `StateLocked` if another process runs it, `Topology` as at a start.
    pub fn clean_up(&self) -> Result<()> {
        // Held to the end, so that nothing starts meanwhile.
        let outcome = self.inner.outcome.lock();
        if outcome.started && !outcome.over {
            return Err(Error::config("this application is running")
                .hint("close it, then remove its local state"));
        }
        let spec = &self.inner.spec;
        spec.wipe_state(&spec.specs(&spec.timing())?)
    }

    /// The engine's monotonic clock.
    #[must_use]
    pub fn monotonic(&self) -> Duration {
        self.inner.spec.components.clock.monotonic()
    }

    /// Counters and states.
    #[must_use]
    pub fn status(&self) -> &Arc<Status> {
        &self.inner.status
    }

    /// The topics that its sources read, including those that match patterns now.
    ///
    /// # Errors
    /// Errors of the broker; `MissingTopic` if nothing matches a pattern.
    pub fn source_topics(&self) -> Result<Vec<String>> {
        self.inner.spec.source_topics()
    }

    /// The address of the admin port.
    #[must_use]
    pub fn admin_address(&self) -> Option<AdminAddress> {
        *self.inner.admin.lock()
    }
}

impl Inner {
    /// Starts a new run.
    fn begin(&self, failpoints: &Failpoints) -> Arc<Shared> {
        let status = Arc::clone(&self.status);
        let shared = self.spec.shared(status, failpoints.clone());
        let mut current = self.shared.lock();
        // A stop may have been requested after one run had ended and before this one began.
        signal(&shared, current.requested, current.stop_by);
        shared.set_paused(current.paused);
        current.run = Some(Arc::clone(&shared));
        shared
    }

    fn enter(&self, next: Lifecycle, now: stoatflow_core::Timestamp) {
        let before = self.status.state();
        if self.status.enter(next, now) {
            tracing::info!(
                application = self.status.application_id,
                from = before.name(),
                to = next.name(),
                "state"
            );
            self.tell_systemd(now);
            if let Some(listener) = &self.listener {
                listener(before, next);
            }
        }
    }

    /// Opens the admin port. It has threads of its own: its requests take only processor time from the
    /// lanes, and it answers however busy they are.
    fn open_admin(self: &Arc<Self>, stop: watch::Receiver<bool>) -> Result<Option<Runtime>> {
        let Some(listen) = self.spec.settings.admin_listen.clone() else {
            return Ok(None);
        };
        let runtime = Builder::new_multi_thread()
            .thread_name("stoatflow-admin")
            .worker_threads(1)
            .max_blocking_threads(ADMIN_READERS)
            .enable_all()
            .build()
            .map_err(|e| Error::internal("the admin port can't start its threads").caused_by(e))?;
        let options = AdminOptions {
            listen,
            access: self.spec.settings.admin.clone(),
            stall_after: STALL_AFTER,
            in_flight_max_bytes: self.spec.settings.in_flight_max_bytes as u64,
            state_dir: self.spec.settings.state_dir.clone(),
            version: env!("CARGO_PKG_VERSION"),
        };
        let clock = Arc::clone(&self.spec.components.clock);
        let address = serve(
            runtime.handle(),
            options,
            Arc::clone(&self.status),
            clock,
            self.view.clone(),
            Arc::new(EngineTarget(Arc::downgrade(self))),
            stop,
        )?;
        *self.admin.lock() = Some(address);
        Ok(Some(runtime))
    }

    fn end(&self, error: Option<Error>, shared: &Shared) {
        shared.followers.end(ChangesEnd::of(error.as_ref()));
        self.readers.end();
        let now = self.spec.components.clock.now();
        let error = error.map(Arc::new);
        {
            let mut outcome = self.outcome.lock();
            if std::mem::replace(&mut outcome.ending, true) {
                return;
            }
            outcome.error.clone_from(&error);
        }
        let monotonic = self.spec.components.clock.monotonic();
        self.status.log_unlogged_drops(monotonic, true);
        if let Some(error) = &error
            && self.status.error().is_none()
        {
            self.status.errors.note(error, None, "failed", now);
        }
        let home = &self.spec.settings.state_dir;
        self.status.errors.save(home, monotonic, true);
        if let Some(error) = &error {
            self.note_fencing(error);
            self.status.failed(error);
            tracing::error!(application = self.status.application_id, %error, "stopped by an error");
            if self.status.state() == Lifecycle::Created {
                self.enter(Lifecycle::Starting, now);
            }
            self.enter(Lifecycle::Failed, now);
        } else {
            self.enter(Lifecycle::Stopping, now);
            self.enter(Lifecycle::Stopped, now);
        }
        shared.abort();
        self.outcome.lock().over = true;
        self.ended.notify_all();
    }
}

/// As [`PanicGuard`], for the thread that joins the others and reports the end.
struct MainGuard(Arc<Inner>);

impl Drop for MainGuard {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let run = self.0.shared.lock().run.clone();
        if let Some(shared) = run {
            self.0.end(Some(panicked("stoatflow-main")), &shared);
            shared.set_ended();
        }
    }
}
