//! The daemon's schedules.

use angelia_core::model::ScheduleId;
use angelia_frontends::http::{
    NewScheduleBody, ScheduleChangeBody,
    resources::{ResourceList, ScheduleResource},
};
use hyper::Method;

use super::{ClientError, DaemonClient, request};

/// The path of the list.
pub(crate) const SCHEDULES_PATH: &str = "/api/schedules";

fn path(id: ScheduleId) -> String {
    format!("{SCHEDULES_PATH}/{id}")
}

impl DaemonClient {
    pub(crate) async fn schedules(&self) -> Result<Vec<ScheduleResource>, ClientError> {
        let all: ResourceList<_> = self.call_json(request(Method::GET, SCHEDULES_PATH)).await?;
        Ok(all.data)
    }

    pub(crate) async fn schedule(&self, id: ScheduleId) -> Result<ScheduleResource, ClientError> {
        self.call_json(request(Method::GET, &path(id))).await
    }

    pub(crate) async fn add_schedule(
        &self,
        new: &NewScheduleBody,
    ) -> Result<ScheduleResource, ClientError> {
        self.call_json(request(Method::POST, SCHEDULES_PATH).json(new)?).await
    }

    pub(crate) async fn set_schedule_paused(
        &self,
        id: ScheduleId,
        paused: bool,
    ) -> Result<ScheduleResource, ClientError> {
        let change = ScheduleChangeBody { paused };
        self.call_json(request(Method::PATCH, &path(id)).json(&change)?).await
    }

    pub(crate) async fn remove_schedule(&self, id: ScheduleId) -> Result<(), ClientError> {
        self.send_and_read(request(Method::DELETE, &path(id))).await?;
        Ok(())
    }
}
