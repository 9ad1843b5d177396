//! `/api/approvals`.

use std::{collections::BTreeMap, sync::Arc};

use angelia_core::model::{Answer, ApprovalId, Decision, Verdict};
use axum::{Extension, Json, extract::State};
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::{
    super::{ApiError, ApiState, Caller, body::JsonBody},
    Id,
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecisionBody {
    #[serde(deserialize_with = "verdict")]
    verdict: Verdict,
    #[serde(default)]
    note: Option<Arc<str>>,
    /// By the text of the question.
    #[serde(default)]
    answers: BTreeMap<Arc<str>, Arc<str>>,
}

fn verdict<'de, D: Deserializer<'de>>(value: D) -> Result<Verdict, D::Error> {
    let text = String::deserialize(value)?;
    Verdict::parse(&text).ok_or_else(|| {
        let known = Verdict::ALL.map(Verdict::as_str).join(", ");
        D::Error::custom(format!("`{text}` is no verdict; use one of {known}"))
    })
}

#[derive(Debug, Serialize)]
pub(super) struct Decided {
    id: String,
    verdict: &'static str,
}

pub(super) async fn decide(
    State(state): State<Arc<ApiState>>,
    Id(id): Id<ApprovalId>,
    Extension(caller): Extension<Caller>,
    JsonBody(body): JsonBody<DecisionBody>,
) -> Result<Json<Decided>, ApiError> {
    caller.may_decide().await?;
    let answers = body.answers.into_iter();
    let decision = Decision {
        verdict: body.verdict,
        note: body.note,
        answers: answers
            .map(|(question, answer)| Answer { question, answer })
            .collect(),
        by: "owner".into(),
    };
    state.engine.decide(id, decision).await?;
    Ok(Json(Decided {
        id: id.to_string(),
        verdict: body.verdict.as_str(),
    }))
}
