//! A request begins with the bytes of the one before it, so that providers' caches hold.

use angelia_executors::{
    native::provider::Api,
    scripted_model::{Reply, ReplyBlock},
};
use serde_json::Value;

use crate::loop_lab::{bash, calls, in_each_api};

/// Returns the request's parts that come before the end of its conversation, without cache marks.
fn parts(api: Api, body: &Value) -> (Vec<String>, Vec<String>) {
    let mut body = body.clone();
    remove_marks(&mut body);
    let list = if api == Api::Responses { "input" } else { "messages" };
    let entries = body[list].take();
    let fields = body.as_object().unwrap().iter().map(|(name, value)| format!("{name}={value}"));
    let fields = fields.collect();
    (fields, entries.as_array().unwrap().iter().map(Value::to_string).collect())
}

fn remove_marks(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("cache_control");
            fields.values_mut().for_each(remove_marks);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_marks),
        _ => {}
    }
}

#[tokio::test]
async fn requests_grow_at_their_end_only() {
    in_each_api(async |lab| {
        let mut session = lab.open().await;
        for turn in 0..3 {
            let thought = ReplyBlock::Thinking(format!("thought {turn}"));
            let text = ReplyBlock::Text("I will run it.".into());
            let step = calls([thought, text, bash(&format!("echo {turn}"))]);
            lab.server.script([step, Reply::text(format!("answer {turn}"))]);
            assert_eq!(
                session.prompt(&format!("prompt {turn}")).await.answer(),
                format!("answer {turn}")
            );
        }
        session.close().await;
        let requests: Vec<_> =
            lab.requests().iter().map(|request| parts(lab.api, &request.body)).collect();
        assert_eq!(requests.len(), 6);
        for pair in requests.windows(2) {
            assert_eq!(pair[0].0, pair[1].0, "{:?}: system, tools and settings", lab.api);
            assert!(pair[1].1.starts_with(&pair[0].1), "{:?}: {pair:#?}", lab.api);
        }
    })
    .await;
}
