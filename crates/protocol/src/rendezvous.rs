//! Merges the views of all lanes at the end of a stage, while they wait.
//!
//! Takes a report of each lane per (epoch, stage); the last lane to report gets the merged view. A lane
//! that has reported stays in the stage until it is released; later items of the stage wait. Works for
//! any type of view, and never blocks.

use stoatflow_core::{Epoch, Error, Lane, Result, StageId};

/// The reports for one stage.
#[derive(Debug)]
struct Meeting<T> {
    epoch: Epoch,
    arrived: Vec<bool>,
    merged: T,
}

/// See the module. One epoch is aligned at a time, so each stage has at most one meeting.
#[derive(Debug)]
pub struct Rendezvous<T> {
    lanes: usize,
    stages: Vec<Option<Meeting<T>>>,
}

impl<T> Rendezvous<T> {
    /// For this many lanes and stages.
    #[must_use]
    pub fn new(lanes: u32, stages: usize) -> Self {
        Self {
            lanes: lanes as usize,
            stages: (0..stages).map(|_| None).collect(),
        }
    }

    /// A lane has finished this stage of this epoch. `Some` for the last one: all lanes may be
    /// released with the merged view.
    ///
    /// # Errors
    /// `Internal` if the lane, the stage or the epoch is not expected here.
    pub fn arrive(
        &mut self,
        (epoch, stage, lane): (Epoch, StageId, Lane),
        view: T,
        merge: impl FnOnce(T, T) -> T,
    ) -> Result<Option<T>> {
        let wrong = |what: &str| {
            Error::internal(format!(
                "lane {lane} reports stage {stage} of epoch {epoch}, {what}"
            ))
        };
        let lanes = self.lanes;
        let place = self
            .stages
            .get_mut(usize::from(stage.0))
            .ok_or_else(|| wrong("which the plan doesn't have"))?;
        let mut meeting = match place.take() {
            None => Meeting {
                epoch,
                arrived: vec![false; lanes],
                merged: view,
            },
            Some(meeting) if meeting.epoch != epoch => {
                return Err(wrong(&format!(
                    "while others are in epoch {}",
                    meeting.epoch
                )));
            }
            Some(meeting) => Meeting {
                merged: merge(meeting.merged, view),
                ..meeting
            },
        };
        match meeting.arrived.get_mut(lane.0 as usize) {
            Some(arrived) if !*arrived => *arrived = true,
            Some(_) => return Err(wrong("for the second time")),
            None => return Err(wrong("but there is no such lane")),
        }
        if meeting.arrived.iter().all(|a| *a) {
            return Ok(Some(meeting.merged));
        }
        *place = Some(meeting);
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
