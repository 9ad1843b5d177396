//! The rate limits of the REST API, as its headers state them. Each route has a bucket per channel.
//! Pure.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// Identifies the bucket of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BucketKey {
    /// The method and the path without ids.
    pub(super) route: &'static str,
    /// The channel, or an empty string.
    pub(super) major: String,
}

/// The rate limit headers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LimitHeaders {
    /// The name of the bucket, which several routes may share.
    pub(super) bucket: Option<String>,
    pub(super) remaining: u64,
    pub(super) reset_after: Duration,
}

/// Above this number of buckets, those that have been reset are forgotten.
const MAX_BUCKETS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct RateBuckets {
    /// Until this time, no request at all may be sent.
    closed_until: Option<Instant>,
    /// The name of the bucket of each route.
    names: HashMap<&'static str, String>,
    buckets: HashMap<(String, String), Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    remaining: u64,
    reset_at: Instant,
}

impl RateBuckets {
    /// Takes a slot in a bucket. If it is full, returns when a slot becomes free.
    pub(super) fn take(&mut self, key: &BucketKey, now: Instant) -> Result<(), Instant> {
        if let Some(at) = self.free_at(key, now) {
            return Err(at);
        }
        let name = self.bucket_name(key);
        if let Some(bucket) = self.buckets.get_mut(&name) {
            bucket.remaining = bucket.remaining.saturating_sub(1);
        }
        Ok(())
    }

    /// Returns when a slot in a bucket becomes free, or `None` if there is one now.
    pub(super) fn free_at(&self, key: &BucketKey, now: Instant) -> Option<Instant> {
        let bucket = self.buckets.get(&self.bucket_name(key));
        let reset_at = bucket.filter(|one| one.remaining == 0).map(|one| one.reset_at);
        reset_at.max(self.closed_until).filter(|at| *at > now)
    }

    /// Updates a bucket from the headers of a response.
    pub(super) fn learn(&mut self, key: &BucketKey, headers: LimitHeaders, now: Instant) {
        if let Some(name) = headers.bucket {
            self.names.insert(key.route, name);
        }
        if self.buckets.len() >= MAX_BUCKETS {
            self.buckets.retain(|_, bucket| bucket.reset_at > now);
        }
        let bucket = Bucket { remaining: headers.remaining, reset_at: now + headers.reset_after };
        self.buckets.insert(self.bucket_name(key), bucket);
    }

    /// Closes a bucket, or all of them, after Discord refused a request for its rate.
    pub(super) fn close(
        &mut self,
        key: &BucketKey,
        pause: Duration,
        is_global: bool,
        now: Instant,
    ) {
        if is_global {
            self.closed_until = Some(now + pause);
        } else {
            let bucket = Bucket { remaining: 0, reset_at: now + pause };
            self.buckets.insert(self.bucket_name(key), bucket);
        }
    }

    fn bucket_name(&self, key: &BucketKey) -> (String, String) {
        let name = self.names.get(key.route).map_or(key.route, String::as_str);
        (name.to_owned(), key.major.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(route: &'static str, major: &str) -> BucketKey {
        BucketKey { route, major: major.to_owned() }
    }

    fn headers(bucket: &str, remaining: u64) -> LimitHeaders {
        LimitHeaders { bucket: Some(bucket.to_owned()), remaining, reset_after: SECOND }
    }

    #[test]
    fn an_empty_bucket_waits_for_its_reset_and_others_do_not() {
        let (mut buckets, now) = (RateBuckets::default(), Instant::now());
        let send = key("POST messages", "1");
        assert_eq!(buckets.take(&send, now), Ok(()));
        buckets.learn(&send, headers("abc", 1), now);
        assert_eq!(buckets.take(&send, now), Ok(()));
        assert_eq!(buckets.take(&send, now), Err(now + SECOND));
        assert_eq!(buckets.take(&key("POST messages", "2"), now), Ok(()), "another channel");
        assert_eq!(buckets.take(&send, now + SECOND), Ok(()), "it was reset");
    }

    #[test]
    fn routes_can_share_a_bucket() {
        let (mut buckets, now) = (RateBuckets::default(), Instant::now());
        let (send, edit) = (key("POST messages", "1"), key("PATCH message", "1"));
        buckets.learn(&edit, headers("abc", 3), now);
        buckets.learn(&send, headers("abc", 0), now);
        assert_eq!(buckets.take(&edit, now), Err(now + SECOND));
    }

    #[test]
    fn too_many_requests_close_a_bucket_or_everything() {
        let (mut buckets, now) = (RateBuckets::default(), Instant::now());
        let (one, two) = (key("POST messages", "1"), key("POST messages", "2"));
        buckets.close(&one, SECOND, false, now);
        assert_eq!(buckets.take(&one, now), Err(now + SECOND));
        assert_eq!(buckets.take(&two, now), Ok(()));
        buckets.close(&one, SECOND * 2, true, now);
        assert_eq!(buckets.take(&two, now), Err(now + SECOND * 2));
        assert_eq!(buckets.take(&two, now + SECOND * 2), Ok(()));
    }
}
