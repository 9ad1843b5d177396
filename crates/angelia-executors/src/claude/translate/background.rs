//! Work that outlives an answer: background commands and agents.
//!
//! When such a task ends, the CLI reports it to the model: within the running turn at its next
//! request, else in a turn of its own. Until it has, the report is owed, and the turn that started
//! the task is not over.

use super::turn::Turn;
use crate::claude::protocol::incoming::TaskLine;

#[derive(Debug, Default)]
pub(super) struct Tasks {
    known: Vec<Task>,
    owed: bool,
    /// The CLI announces its requests to the model, so they tell when reports are taken along.
    announces: bool,
}

#[derive(Debug)]
struct Task {
    id: Box<str>,
    tool: Option<Box<str>>,
    /// `None`: this version does not say.
    background: Option<bool>,
    running: bool,
}

impl Tasks {
    pub(super) fn running(&self) -> impl Iterator<Item = &str> {
        let running = |task: &&Task| task.running && task.background != Some(false);
        self.known.iter().filter(running).map(|task| &*task.id)
    }

    /// An answer is not the end while this holds.
    pub(super) fn unfinished(&self) -> bool {
        self.owed || self.running().next().is_some()
    }

    /// A request to the model begins and takes along what is owed.
    pub(super) fn requesting(&mut self) {
        self.announces = true;
        self.owed = false;
    }

    /// The CLI begins a turn; it reports first thing.
    pub(super) fn turn_started(&mut self) {
        self.owed = false;
    }

    /// Without announcements: what follows a tool's result is the next request.
    pub(super) fn tool_finished(&mut self) {
        if !self.announces {
            self.owed = false;
        }
    }

    pub(super) fn started(&mut self, line: &TaskLine<'_>) {
        let Some(id) = line.task_id.as_str() else {
            return;
        };
        let task = match self.known.iter_mut().position(|task| *task.id == *id) {
            Some(at) => &mut self.known[at],
            None => self.add(id),
        };
        task.tool = line.tool_use_id.as_str().map(Into::into);
        task.background = line.is_backgrounded.get().or(task.background);
    }

    fn add(&mut self, id: &str) -> &mut Task {
        self.known.push_mut(Task { id: id.into(), tool: None, background: None, running: true })
    }

    pub(super) fn updated(&mut self, line: &TaskLine<'_>) {
        let (Some(id), Some(patch)) = (line.task_id.as_str(), &line.patch.0) else {
            return;
        };
        if let Some(task) = self.known.iter_mut().find(|task| *task.id == *id) {
            task.background = patch.is_backgrounded.get().or(task.background);
            task.running &= patch.status.as_str().is_none_or(is_running);
        }
    }

    /// The task has ended. Its report is owed unless it belongs to a tool call that waits for it,
    /// or somebody stopped it.
    pub(super) fn notified(&mut self, line: &TaskLine<'_>, turn: Option<&Turn>) {
        let Some(id) = line.task_id.as_str() else {
            return;
        };
        let Some(at) = self.known.iter().position(|task| *task.id == *id) else {
            return;
        };
        let task = self.known.swap_remove(at);
        let waited_for = || {
            let tool = task.tool.as_deref();
            tool.is_some_and(|tool| turn.is_some_and(|turn| turn.is_tool_open(tool)))
        };
        let background = task.background.unwrap_or_else(|| !waited_for());
        let ended = matches!(line.status.as_str(), Some("completed" | "failed"));
        self.owed |= background && ended;
    }

    /// The whole list, where the version gives it.
    pub(super) fn listed(&mut self, line: &TaskLine<'_>) {
        let Some(listed) = &line.tasks.0 else { return };
        let ids = || listed.iter().filter_map(|task| task.task_id.as_str());
        for task in &mut self.known {
            if task.background == Some(true) {
                task.running = ids().any(|id| *task.id == *id);
            }
        }
        for id in ids() {
            if !self.known.iter().any(|task| *task.id == *id) {
                self.add(id).background = Some(true);
            }
        }
    }
}

fn is_running(status: &str) -> bool {
    matches!(status, "pending" | "running" | "in_progress" | "paused")
}
