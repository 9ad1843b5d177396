//! Requests about all sessions and turns: status, usage, quotas and search.

use angelia_core::model::{UsageBucket, UsageQuery};
use angelia_frontends::http::resources::{
    QuotaResource, ResourceList, SearchResource, StatusResource, UsageResource,
};
use hyper::Method;

use super::{ClientError, DaemonClient, percent_encode, request, with_query};

impl DaemonClient {
    pub(crate) async fn status(&self) -> Result<StatusResource, ClientError> {
        self.call_json(request(Method::GET, "/api/status")).await
    }

    pub(crate) async fn quotas(&self) -> Result<Vec<QuotaResource>, ClientError> {
        let quotas: ResourceList<_> = self.call_json(request(Method::GET, "/api/quotas")).await?;
        Ok(quotas.data)
    }

    pub(crate) async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageResource>, ClientError> {
        let bucket = query.bucket.map(|bucket| match bucket {
            UsageBucket::Hour => "hour".to_owned(),
            UsageBucket::Day => "day".to_owned(),
        });
        let parameters = [
            ("from", query.from.map(|time| time.to_string())),
            ("to", query.to.map(|time| time.to_string())),
            ("by", query.by.map(|by| by.as_str().to_owned())),
            ("bucket", bucket),
        ];
        let path = with_query("/api/usage", parameters);
        let rows: ResourceList<_> = self.call_json(request(Method::GET, &path)).await?;
        Ok(rows.data)
    }

    pub(crate) async fn search(
        &self,
        words: &str,
        limit: usize,
    ) -> Result<Vec<SearchResource>, ClientError> {
        let path = format!("/api/search?q={}&limit={limit}", percent_encode(words));
        let found: ResourceList<_> = self.call_json(request(Method::GET, &path)).await?;
        Ok(found.data)
    }
}
