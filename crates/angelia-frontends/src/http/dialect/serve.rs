//! Serves a request to a model API, from the decoded body to the HTTP response.

use std::sync::Arc;

use axum::{http::HeaderMap, response::Response};

use super::{
    Dialect, ModelRequest, answer::LiveAnswer, matching, request::ResolvedRequest, respond,
};
use crate::http::{ApiState, HttpError, Principal, caller_limits::BodyReservation};

/// Serves a decoded request, or responds with the reason why it could not be decoded.
pub(in crate::http) async fn serve<D: Dialect>(
    state: Arc<ApiState>,
    principal: Principal,
    headers: &HeaderMap,
    decoded: Result<(ModelRequest, D), HttpError>,
    reservation: Option<BodyReservation>,
) -> Response {
    let caller = Arc::clone(&principal.name);
    let started = async {
        let (body, dialect) = decoded?;
        let request =
            ResolvedRequest::resolve(state, principal, headers, body, reservation).await?;
        let request = Arc::new(request);
        let turn = matching::attach(&request).await?;
        Ok((LiveAnswer::new(request, turn), dialect))
    };
    match started.await {
        Ok((answer, dialect)) => respond::respond(answer, dialect).await,
        Err(error) => {
            tracing::debug!(%caller, %error, "request refused");
            respond::error_response::<D>(&error)
        }
    }
}
