//! Lists the models of a local server, for somebody who has not configured it yet.

use std::sync::Arc;

use serde_json::Value;

use super::{
    provider::Provider,
    short_request::{Question, ShortAnswer, ask},
};
use crate::native::provider::window::ModelLimits;

/// A server may have hundreds of models; only this many are asked about one by one.
const MAX_DETAILS: usize = 32;

/// A model of a server, and what the server says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedModel {
    pub id: Arc<str>,
    /// Tokens of the prompt and the answer together.
    pub context: Option<u64>,
    /// Whether the model can call tools.
    pub tools: Option<bool>,
}

/// Asks a server for its models, without running one. The error says why there is no list.
pub async fn list_models(provider: &Provider) -> Result<Vec<ServedModel>, String> {
    let answer = ask(provider, None, &Question::Models).await?;
    let mut models = read_list(&answer)?;
    for model in models.iter_mut().take(MAX_DETAILS) {
        let details = ask(provider, None, &Question::Show(&model.id)).await;
        // Only one kind of server has this address.
        let Some(details) = details.ok().filter(ShortAnswer::is_success) else { break };
        let limits = ModelLimits::read(&details.body, &model.id);
        model.context = limits.context.or(model.context);
        model.tools = read_tools(&details.body);
    }
    Ok(models)
}

fn read_list(answer: &ShortAnswer) -> Result<Vec<ServedModel>, String> {
    let unknown = || format!("the server there (status {}) has no list of models", answer.status);
    let body: Value = serde_json::from_str(&answer.body).map_err(|_| unknown())?;
    let list = body["data"].as_array().filter(|_| answer.is_success()).ok_or_else(unknown)?;
    let ids = list.iter().filter_map(|entry| entry["id"].as_str());
    let served = ids.map(|id| ServedModel {
        id: id.into(),
        context: ModelLimits::read(&answer.body, id).context,
        tools: None,
    });
    Ok(served.collect())
}

/// Reads from the description of a model whether it can call tools.
fn read_tools(body: &str) -> Option<bool> {
    let body: Value = serde_json::from_str(body).ok()?;
    let able = body["capabilities"].as_array()?;
    Some(able.iter().any(|capability| capability == "tools"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_anything_else_is_named() {
        let read = |status: u16, body: &str| {
            read_list(&ShortAnswer { status, body: body.to_owned() })
                .map(|models| models.into_iter().map(|one| (one.id.to_string(), one.context)))
                .map(Iterator::collect::<Vec<_>>)
        };
        let body = r#"{"data":[{"id":"a","meta":{"n_ctx":2048}},{"id":"b"},{"name":"c"}]}"#;
        assert_eq!(read(200, body), Ok(vec![("a".into(), Some(2048)), ("b".into(), None)]));
        assert_eq!(read(200, r#"{"data":[]}"#), Ok(Vec::new()));
        for (status, body) in [(404, "{}"), (200, "<html>"), (200, "[]"), (500, r#"{"data":[]}"#)] {
            let said = read(status, body).unwrap_err();
            assert!(said.contains(&status.to_string()), "{said}");
        }
        assert_eq!(read_tools(r#"{"capabilities":["completion","tools"]}"#), Some(true));
        assert_eq!(read_tools(r#"{"capabilities":["completion"]}"#), Some(false));
        assert_eq!(read_tools(r#"{"model_info":{}}"#), None);
    }
}
