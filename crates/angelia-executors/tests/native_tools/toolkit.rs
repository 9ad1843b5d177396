//! The tools of a session together.

use angelia_core::model::PlanStatus;
use angelia_executors::native::tools::{EditStyle, PreparedTool, ask_user};
use serde_json::{Value, json, value::to_raw_value};

use super::session::CommandPlace;

#[test]
fn the_definitions_are_json_and_short() {
    let place = CommandPlace::new();
    let mut names = Vec::new();
    for style in [EditStyle::Replace, EditStyle::Patch] {
        let definitions = place.toolkit(style).definitions();
        let mut bytes = 0;
        for tool in &definitions {
            let schema: Value = serde_json::from_str(tool.input_schema.get()).unwrap();
            assert_eq!(schema["type"], "object", "{}", tool.name);
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    schema["properties"].get(name.as_str().unwrap()).is_some(),
                    "{}",
                    tool.name
                );
            }
            let whole = json!({"name": *tool.name, "description": *tool.description, "input_schema": schema});
            bytes += whole.to_string().len();
        }
        names.push(
            definitions.iter().map(|tool| tool.name.to_string()).collect::<Vec<_>>().join(" "),
        );
        println!("{style:?}: {bytes} bytes");
        // A token of such text has about four bytes: this is half of the 2,500 for tools and prompt.
        assert!(bytes <= 5000, "{style:?}: {bytes} bytes");
    }
    assert_eq!(
        names,
        [
            "read edit write grep glob bash job todo ask_user",
            "read apply_patch grep glob bash job todo ask_user",
        ]
    );
}

#[tokio::test]
async fn a_call_is_found_by_its_name() {
    let place = CommandPlace::new();
    let toolkit = place.toolkit(EditStyle::Replace);
    let prepare = async |name: &str, arguments: Value| {
        toolkit.prepare(name, to_raw_value(&arguments).unwrap().into()).await
    };
    assert!(matches!(prepare("read", json!({"path": "a"})).await, Ok(PreparedTool::Call(_))));
    let unknown = prepare("Read", json!({"path": "a"})).await.unwrap_err();
    assert!(unknown.to_string().contains("no tool `Read`"), "{unknown}");
    let items =
        json!({"items": [{"text": "a", "status": "in_progress"}, {"text": "b", "status": "done"}]});
    let Ok(PreparedTool::Plan(plan)) = prepare("todo", items).await else { panic!("no plan") };
    let statuses: Vec<_> = plan.items.iter().map(|item| item.status).collect();
    assert_eq!(statuses, [PlanStatus::InProgress, PlanStatus::Completed]);
    let asked = prepare("ask_user", json!({"question": "Which?", "options": ["a", "b"]})).await;
    let Ok(PreparedTool::Question(question)) = asked else { panic!("no question") };
    assert_eq!((&*question.text, question.options.len()), ("Which?", 2));
    assert!(prepare("ask_user", json!({"question": ""})).await.is_err());
    assert!(ask_user::answer_text(&[]).contains("decide yourself"));
}
