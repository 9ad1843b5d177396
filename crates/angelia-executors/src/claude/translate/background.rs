//! Background tasks (commands and agents) that outlive an answer.
//!
//! When such a task ends, the CLI reports it to the model: with the next request of the running
//! turn, or in a separate turn. Until then the report is owed, and the turn that started the task
//! is not over.

use super::turn::ClaudeTurn;
use crate::claude::protocol::incoming::TaskLine;

#[derive(Debug, Default)]
pub(super) struct BackgroundTasks {
    tasks: Vec<BackgroundTask>,
    report_owed: bool,
    /// Set if this version announces its model requests, which show when a report is delivered.
    announces_requests: bool,
}

#[derive(Debug)]
struct BackgroundTask {
    id: Box<str>,
    tool: Option<Box<str>>,
    /// `None` if this version does not report it.
    background: Option<bool>,
    running: bool,
}

impl BackgroundTasks {
    pub(super) fn running_ids(&self) -> impl Iterator<Item = &str> {
        let running = |task: &&BackgroundTask| task.running && task.background != Some(false);
        self.tasks.iter().filter(running).map(|task| &*task.id)
    }

    /// Reports whether tasks are running or a report is owed, so that an answer does not end the
    /// turn yet.
    pub(super) fn has_unfinished(&self) -> bool {
        self.report_owed || self.running_ids().next().is_some()
    }

    /// Records a request to the model, which delivers the owed report.
    pub(super) fn record_request(&mut self) {
        self.announces_requests = true;
        self.report_owed = false;
    }

    /// Records that the CLI begins a turn, which delivers the owed report first.
    pub(super) fn record_turn_start(&mut self) {
        self.report_owed = false;
    }

    /// Records a tool result. In versions without announcements, a model request follows it.
    pub(super) fn record_tool_result(&mut self) {
        if !self.announces_requests {
            self.report_owed = false;
        }
    }

    pub(super) fn record_start(&mut self, line: &TaskLine<'_>) {
        let Some(id) = line.task_id.as_str() else {
            return;
        };
        let task = match self.tasks.iter_mut().position(|task| *task.id == *id) {
            Some(at) => &mut self.tasks[at],
            None => self.add(id),
        };
        task.tool = line.tool_use_id.as_str().map(Into::into);
        task.background = line.is_backgrounded.get().or(task.background);
    }

    fn add(&mut self, id: &str) -> &mut BackgroundTask {
        self.tasks.push_mut(BackgroundTask {
            id: id.into(),
            tool: None,
            background: None,
            running: true,
        })
    }

    pub(super) fn apply_update(&mut self, line: &TaskLine<'_>) {
        let (Some(id), Some(patch)) = (line.task_id.as_str(), &line.patch.0) else {
            return;
        };
        if let Some(task) = self.tasks.iter_mut().find(|task| *task.id == *id) {
            task.background = patch.is_backgrounded.get().or(task.background);
            task.running &= patch.status.as_str().is_none_or(is_running);
        }
    }

    /// Records that a task has ended. Its report is owed unless a tool call waits for the task or
    /// the task was stopped.
    pub(super) fn record_end(&mut self, line: &TaskLine<'_>, turn: Option<&ClaudeTurn>) {
        let Some(id) = line.task_id.as_str() else {
            return;
        };
        let Some(at) = self.tasks.iter().position(|task| *task.id == *id) else {
            return;
        };
        let task = self.tasks.swap_remove(at);
        let waited_for = || {
            let tool = task.tool.as_deref();
            tool.is_some_and(|tool| turn.is_some_and(|turn| turn.is_tool_open(tool)))
        };
        let background = task.background.unwrap_or_else(|| !waited_for());
        let ended = matches!(line.status.as_str(), Some("completed" | "failed"));
        self.report_owed |= background && ended;
    }

    /// Applies the complete list of background tasks, in versions that send it.
    pub(super) fn apply_list(&mut self, line: &TaskLine<'_>) {
        let Some(listed) = &line.tasks.0 else { return };
        let ids = || listed.iter().filter_map(|task| task.task_id.as_str());
        for task in &mut self.tasks {
            if task.background == Some(true) {
                task.running = ids().any(|id| *task.id == *id);
            }
        }
        for id in ids() {
            if !self.tasks.iter().any(|task| *task.id == *id) {
                self.add(id).background = Some(true);
            }
        }
    }
}

fn is_running(status: &str) -> bool {
    matches!(status, "pending" | "running" | "in_progress" | "paused")
}
