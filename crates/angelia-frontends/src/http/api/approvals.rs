//! `/api/approvals`.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use angelia_core::{
    engine::{Engine, EngineError},
    model::{
        ApprovalId, ApprovalRecord, AuditAction, Decision, QuestionAnswer, SessionId,
        SessionRecord, Verdict,
    },
    ports::{ApprovalFilter, RecordKind},
};
use axum::{Extension, Json, extract::State};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::{
    super::{
        ApiState, ConnectionSource, ErrorKind, HttpError, Principal,
        body::{JsonBody, QueryParams},
        openapi::shapes,
        resources::{ApprovalResource, ResourceList},
        state::SharedState,
    },
    PathId,
    paging::PageQuery,
};

pub(super) async fn list(
    State(state): SharedState,
    QueryParams(query): QueryParams<PageQuery>,
) -> Result<Json<ResourceList<ApprovalResource>>, HttpError> {
    let which = if query.includes_all()? { ApprovalFilter::All } else { ApprovalFilter::Pending };
    let records = match query.prefix()? {
        Some(prefix) => {
            let mut found = Vec::new();
            let limit = query.page()?.limit;
            for id in state.engine.find_ids(RecordKind::Approval, prefix, limit).await? {
                found.push(state.engine.approval(ApprovalId::from_uuid(id)).await?);
            }
            found
        }
        None => state.engine.approvals(which, query.page()?).await?,
    };
    let id = |record: &ApprovalRecord| record.approval.id.to_string();
    let page = query.list(&records, id, ApprovalRecord::clone);
    let data = approval_resources(&state.engine, &page.data).await?;
    Ok(Json(ResourceList { next: page.next, data }))
}

/// Describes approvals, including their sessions and short ids.
pub(super) async fn approval_resources(
    engine: &Engine,
    records: &[ApprovalRecord],
) -> Result<Vec<ApprovalResource>, EngineError> {
    let mut sessions: HashMap<SessionId, SessionRecord> = HashMap::new();
    let mut resources = Vec::new();
    for record in records {
        if !sessions.contains_key(&record.session)
            && let Ok(session) = engine.session(record.session).await
        {
            sessions.insert(session.id, session);
        }
        let mut approval = ApprovalResource::new(record, sessions.get(&record.session));
        let id = approval.id.as_uuid();
        approval.short_id = Some(engine.short_id(RecordKind::Approval, id).await?);
        resources.push(approval);
    }
    Ok(resources)
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionBody {
    /// `once`, `session`, `always`, `deny` or `stop`.
    #[serde(serialize_with = "write_verdict", deserialize_with = "read_verdict")]
    #[schemars(schema_with = "shapes::verdict")]
    pub verdict: Verdict,
    #[serde(default)]
    pub note: Option<Arc<str>>,
    /// For `session` and `always`: one of the approval's `rules`. Without it, the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Arc<str>>,
    /// Answers by the text of their question.
    #[serde(default)]
    pub answers: BTreeMap<Arc<str>, Arc<str>>,
}

impl From<Decision> for DecisionBody {
    fn from(decision: Decision) -> Self {
        let answers = decision.answers.into_iter();
        Self {
            verdict: decision.verdict,
            note: decision.note,
            rule: decision.rule,
            answers: answers.map(|answer| (answer.question, answer.answer)).collect(),
        }
    }
}

/// Only the owner decides through `/api` or a host.
impl From<DecisionBody> for Decision {
    fn from(body: DecisionBody) -> Self {
        let answers = body.answers.into_iter();
        let answer = |(question, answer)| QuestionAnswer { question, answer };
        Self {
            verdict: body.verdict,
            note: body.note,
            rule: body.rule,
            answers: answers.map(answer).collect(),
            by: "owner".into(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn write_verdict<S: Serializer>(verdict: &Verdict, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(verdict.as_str())
}

fn read_verdict<'de, D: Deserializer<'de>>(value: D) -> Result<Verdict, D::Error> {
    let text = String::deserialize(value)?;
    Verdict::parse(&text).ok_or_else(|| {
        let known = Verdict::ALL.map(Verdict::as_str).join(", ");
        D::Error::custom(format!("`{text}` is not a verdict; use one of {known}"))
    })
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Decided")]
pub(in crate::http) struct DecisionReceipt {
    id: String,
    verdict: &'static str,
}

pub(super) async fn decide(
    State(state): SharedState,
    PathId(id): PathId<ApprovalId>,
    Extension(source): Extension<ConnectionSource>,
    Extension(principal): Extension<Principal>,
    JsonBody(body): JsonBody<DecisionBody>,
) -> Result<Json<DecisionReceipt>, HttpError> {
    let verdict = body.verdict.as_str();
    let decision = Decision { by: principal.decider(), ..body.into() };
    match state.engine.decide(id, decision).await {
        Ok(()) => {
            let actor = source.audit_actor().await;
            let subject = format!("approval {id}: {verdict}");
            state.engine.record_audit(actor, AuditAction::Decision, subject).await;
        }
        Err(EngineError::NotPending) => return Err(not_pending(&state, id).await),
        Err(error) => return Err(error.into()),
    }
    Ok(Json(DecisionReceipt { id: id.to_string(), verdict }))
}

/// Returns why an approval cannot be decided.
async fn not_pending(state: &ApiState, id: ApprovalId) -> HttpError {
    let message = match state.engine.approval(id).await.map(|record| record.resolution) {
        Err(error) => return error.into(),
        Ok(Some((decided, _))) => format!(
            "the approval has been decided already: {} by {}",
            decided.verdict.as_str(),
            decided.by
        ),
        Ok(None) => "the approval's turn does not run in this daemon".to_owned(),
    };
    HttpError::new(ErrorKind::Conflict, message)
        .with_hint("`angelia approvals list` shows the pending ones")
}
