//! To-do lists. `TodoWrite` writes the whole list at once. Its successors `TaskCreate` and
//! `TaskUpdate` change single items, so the list is kept here, across turns as in the CLI.

use angelia_core::model::{PlanItem, PlanStatus};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::claude::protocol::incoming::{BorrowedStr, Lenient};

#[derive(Debug, Default)]
pub(super) struct TodoList {
    items: Vec<TodoItem>,
    created: u64,
}

#[derive(Debug)]
struct TodoItem {
    /// Guessed by counting up as the CLI does, until the result of the call gives the real id.
    id: Box<str>,
    call: Box<str>,
    plan: PlanItem,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TodoInput<'a> {
    todos: Lenient<Vec<TodoEntry<'a>>>,
    subject: Lenient<BorrowedStr<'a>>,
    #[serde(rename = "taskId")]
    task: Lenient<BorrowedStr<'a>>,
    status: Lenient<BorrowedStr<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TodoEntry<'a> {
    content: Lenient<BorrowedStr<'a>>,
    status: Lenient<BorrowedStr<'a>>,
}

#[derive(Deserialize)]
struct TaskCreateResult<'a> {
    #[serde(borrow, default)]
    task: Lenient<CreatedTask<'a>>,
}

#[derive(Deserialize)]
struct CreatedTask<'a> {
    #[serde(borrow, default)]
    id: Lenient<BorrowedStr<'a>>,
}

impl TodoList {
    /// Applies a tool call. Returns the new list if the tool changes it.
    pub(super) fn apply_call(
        &mut self,
        tool: &str,
        call: &str,
        input: &RawValue,
    ) -> Option<Vec<PlanItem>> {
        let parse = || serde_json::from_str::<TodoInput<'_>>(input.get()).ok();
        match tool {
            "TodoWrite" => {
                let todos = parse()?.todos.0?;
                return Some(todos.iter().filter_map(plan_item).collect());
            }
            "TaskCreate" => {
                let input = parse()?;
                self.created += 1;
                self.items.push(TodoItem {
                    id: self.created.to_string().into(),
                    call: call.into(),
                    plan: PlanItem {
                        text: input.subject.as_str()?.into(),
                        status: PlanStatus::Pending,
                    },
                });
            }
            "TaskUpdate" => {
                let input = parse()?;
                let id = input.task.as_str()?;
                let at = self.items.iter().position(|item| *item.id == *id)?;
                if input.status.as_str() == Some("deleted") {
                    self.items.remove(at);
                } else {
                    let plan = &mut self.items[at].plan;
                    plan.status = input.status.as_str().map_or(plan.status, status);
                    if let Some(subject) = input.subject.as_str() {
                        plan.text = subject.into();
                    }
                }
            }
            _ => return None,
        }
        Some(self.items.iter().map(|item| item.plan.clone()).collect())
    }

    /// Takes the id of a created item from the result of its call.
    pub(super) fn apply_result(&mut self, call: &str, detail: Option<&RawValue>) {
        let Some(item) = self.items.iter_mut().find(|item| *item.call == *call) else {
            return;
        };
        let created =
            detail.and_then(|raw| serde_json::from_str::<TaskCreateResult<'_>>(raw.get()).ok());
        if let Some(task) = created.and_then(|created| created.task.0)
            && let Some(id) = task.id.as_str()
        {
            item.id = id.into();
        }
    }
}

fn plan_item(todo: &TodoEntry<'_>) -> Option<PlanItem> {
    Some(PlanItem {
        text: todo.content.as_str()?.into(),
        status: todo.status.as_str().map_or(PlanStatus::Pending, status),
    })
}

fn status(text: &str) -> PlanStatus {
    match text {
        "in_progress" => PlanStatus::InProgress,
        "completed" => PlanStatus::Completed,
        _ => PlanStatus::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(todo: &mut TodoList, tool: &str, id: &str, json: &str) -> Option<String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let items = todo.apply_call(tool, id, &raw)?;
        let spell = |item: &PlanItem| format!("{}:{}", item.text, item.status.as_str());
        Some(items.iter().map(spell).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn both_kinds_of_lists_become_a_plan() {
        let mut todo = TodoList::default();
        let list = r#"{"todos":[{"content":"a","status":"completed","activeForm":"x"},
            {"content":"b","status":"in_progress"},{"status":"pending"}]}"#;
        let got = call(&mut todo, "TodoWrite", "t0", list);
        assert_eq!(got.as_deref(), Some("a:completed b:in_progress"));

        let got = call(&mut todo, "TaskCreate", "t1", r#"{"subject":"one"}"#);
        assert_eq!(got.as_deref(), Some("one:pending"));
        call(&mut todo, "TaskCreate", "t2", r#"{"subject":"two"}"#);
        let detail = RawValue::from_string(r#"{"task":{"id":"9"}}"#.to_owned()).unwrap();
        todo.apply_result("t2", Some(&detail));
        let got = call(&mut todo, "TaskUpdate", "t3", r#"{"taskId":"9","status":"in_progress"}"#);
        assert_eq!(got.as_deref(), Some("one:pending two:in_progress"));
        let got = call(&mut todo, "TaskUpdate", "t4", r#"{"taskId":"1","status":"deleted"}"#);
        assert_eq!(got.as_deref(), Some("two:in_progress"));
        assert_eq!(call(&mut todo, "TaskUpdate", "t5", r#"{"taskId":"404"}"#), None);
        assert_eq!(call(&mut todo, "Bash", "t6", "{}"), None);
    }
}
