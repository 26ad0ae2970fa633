//! Resources of the injected container. Pure.
//!
//! The chart says what every sidecar gets, annotations say what this pod's gets, and neither helps where the API server
//! would refuse the pod for it: what the chart says is fitted into what the pod and its namespace leave, and an annotation
//! that does not fit is refused by name.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{LimitRangeItem, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sealane_operator_api::well_known::MEMORY_LIMIT_ANNOTATION;
use serde_json::{Value, json};

use crate::amount::Amount;
use crate::bounds::{Bounds, QuotaLine, amount, total};
use crate::pod_shape::{InjectError, is_guaranteed};
use crate::settings::SidecarSettings;

mod size;

use self::size::{CPU, KINDS, Kind, MEMORY, Size};

/// As in the chart's schema: less holds no lane.
const ARENA_BYTES_MIN: u64 = 16 << 20;

/// What the sidecar of one pod gets.
#[derive(Debug)]
pub(crate) struct Sizing {
    requests: BTreeMap<&'static str, Quantity>,
    limits: BTreeMap<&'static str, Quantity>,
    pub(crate) arena_bytes: u64,
    /// For whoever makes the pod.
    pub(crate) warnings: Vec<String>,
}

impl Sizing {
    /// # Errors
    /// [`InjectError`] names the annotation, or the bound, that has to change.
    pub(crate) fn new(
        pod: &Pod,
        spec: &PodSpec,
        settings: &SidecarSettings,
        bounds: &Bounds,
    ) -> Result<Self, InjectError> {
        let mut sizing = Self {
            requests: BTreeMap::new(),
            limits: BTreeMap::new(),
            arena_bytes: settings.arena_bytes,
            warnings: Vec::new(),
        };
        for kind in &KINDS {
            let required = Amount::of(&settings.required_cpu_limit).filter(|_| kind.name == CPU);
            let size = Fitting { kind, spec, bounds, required: required.as_ref() }.fit(Size::asked(
                kind,
                pod,
                &settings.resources,
            )?)?;
            if kind.name == MEMORY {
                sizing.arena_bytes = arena(settings, size.limit.as_ref());
            }
            sizing.warnings.extend(throttled(&size, required.as_ref()));
            sizing.warnings.extend(lowered(&size, sizing.arena_bytes));
            sizing.requests.extend(size.request.map(|request| (kind.name, request.quantity())));
            sizing.limits.extend(size.limit.map(|limit| (kind.name, limit.quantity())));
        }
        Ok(sizing)
    }

    pub(crate) fn resources(&self) -> Value {
        json!({"requests": self.requests, "limits": self.limits})
    }
}

/// Arenas count against the memory limit, so that they keep their share of it whatever it is.
fn arena(settings: &SidecarSettings, limit: Option<&Amount>) -> u64 {
    let given = |amount: &Amount| Some(amount.units()).filter(|bytes| *bytes > 0);
    let Some(limit) = limit.and_then(given) else { return settings.arena_bytes };
    let chart = amount(settings.resources.limits.as_ref(), MEMORY);
    let bytes = match chart.as_ref().and_then(given) {
        Some(chart) if chart == limit => return settings.arena_bytes,
        Some(chart) => u128::from(settings.arena_bytes) * u128::from(limit) / u128::from(chart),
        None => u128::from(settings.arena_bytes.min(limit / 2)),
    };
    u64::try_from(bytes).unwrap_or(u64::MAX).max(ARENA_BYTES_MIN)
}

fn throttled(size: &Size, required: Option<&Amount>) -> Option<String> {
    let (limit, required) = (size.limit.as_ref()?, required?);
    let annotation = size.kind.limit_annotation?;
    (!limit.is_zero() && limit < required).then(|| {
        format!(
            "the sidecar of this pod has a CPU limit of {limit}, below {required} (chart value sidecar.requiredCpuLimit): lanes are slow, and condition Degraded says CpuThrottled; raise it by the pod's annotation {annotation}"
        )
    })
}

fn lowered(size: &Size, arena_bytes: u64) -> Option<String> {
    let (bound, limit) = (size.lowered.as_ref().filter(|_| size.kind.name == MEMORY)?, size.limit.as_ref()?);
    Some(format!(
        "the sidecar of this pod has a memory limit of {limit}, as much as {bound} leaves, so that its tensors may take {} MiB; annotation {MEMORY_LIMIT_ANNOTATION} sets another limit within that",
        arena_bytes >> 20
    ))
}

/// One resource, and everything that bounds it.
struct Fitting<'a> {
    kind: &'static Kind,
    spec: &'a PodSpec,
    bounds: &'a Bounds,
    /// The limit where there has to be one, if this resource does without otherwise.
    required: Option<&'a Amount>,
}

impl Fitting<'_> {
    fn fit(&self, mut size: Size) -> Result<Size, InjectError> {
        let of_pod = self.of_pod(&mut size)?;
        if !of_pod {
            // With resources of the pod as a whole its class does not depend on its containers.
            if self.spec.resources.is_none() && is_guaranteed(self.spec) {
                size.guarantee(self.required);
            }
            self.demanded_by_quotas(&mut size);
        }
        for (name, item) in self.bounds.items("Container") {
            self.of_container(&mut size, name, item)?;
        }
        if !of_pod {
            for (name, item) in self.bounds.items("Pod") {
                self.beside_others(&mut size, name, item)?;
            }
            self.within_quotas(&mut size)?;
        }
        Ok(size)
    }

    /// Whether the pod as a whole has a share of this resource, in which the sidecar has to find its own: the API server adds
    /// up what containers request, and compares the limit of each with that of the pod.
    fn of_pod(&self, size: &mut Size) -> Result<bool, InjectError> {
        let name = self.kind.name;
        let Some(resources) = &self.spec.resources else { return Ok(false) };
        let limit = amount(resources.limits.as_ref(), name);
        let request = amount(resources.requests.as_ref(), name).or_else(|| limit.clone());
        if let Some(most) = &limit {
            size.limit_at_most(most, &format!("the pod's own spec.resources.limits.{name}"))?;
        }
        if let Some(most) = &request {
            let left = self.left(most, |resources| resources.requests.as_ref());
            let bound = format!("the pod's own spec.resources.requests.{name}, after its containers,");
            size.request_at_most(&left, &bound)?;
        }
        Ok(limit.is_some() || request.is_some())
    }

    /// What the other containers leave of `most`.
    fn left(
        &self,
        most: &Amount,
        of: impl Fn(&ResourceRequirements) -> Option<&BTreeMap<String, Quantity>>,
    ) -> Amount {
        total(self.spec, of, self.kind.name).map_or_else(|| most.clone(), |others| most.less(&others))
    }

    fn keys(&self) -> [String; 3] {
        let name = self.kind.name;
        [format!("limits.{name}"), format!("requests.{name}"), name.to_owned()]
    }

    /// A quota of a resource is also a demand: every container has to say what it takes of it.
    fn demanded_by_quotas(&self, size: &mut Size) {
        for line in self.bounds.quotas(self.spec, &self.keys()) {
            if line.key.starts_with("limits.") {
                size.limit_required(self.required);
            } else {
                size.request_required();
            }
        }
    }

    fn within_quotas(&self, size: &mut Size) -> Result<(), InjectError> {
        for line in self.bounds.quotas(self.spec, &self.keys()) {
            let of_limits = line.key.starts_with("limits.");
            let others = if of_limits {
                total(self.spec, |resources| resources.limits.as_ref(), self.kind.name)
            } else {
                total(self.spec, |resources| resources.requests.as_ref(), self.kind.name)
            };
            let others = others.unwrap_or_else(Amount::zero);
            let bound = format!("ResourceQuota `{}` ({}: {})", line.quota, line.key, line.hard);
            if others > line.hard || others > line.hard.less(&line.used) {
                // The pod does not fit without the sidecar either, and the API server says so in its own words.
                continue;
            }
            let most = line.hard.less(&others);
            if of_limits {
                size.limit_at_most(&most, &bound)?;
            } else {
                size.request_at_most(&most, &bound)?;
            }
            self.left_now(size, of_limits, &line, &others)?;
        }
        Ok(())
    }

    /// What other pods have taken comes back when they end: the sidecar is not made smaller for that.
    fn left_now(
        &self,
        size: &Size,
        of_limits: bool,
        line: &QuotaLine<'_>,
        others: &Amount,
    ) -> Result<(), InjectError> {
        let (asked, part, annotation) = if of_limits {
            (&size.limit, "limits", self.kind.limit_annotation)
        } else {
            (&size.request, "requests", self.kind.request_annotation)
        };
        let setting = || match annotation {
            Some(annotation) => format!("the pod's annotation {annotation}"),
            None => format!("the chart's sidecar.resources.{part}.{}", self.kind.name),
        };
        let left = line.hard.less(&line.used).less(others);
        match asked.as_ref().filter(|asked| **asked > left) {
            None => Ok(()),
            Some(asked) => Err(InjectError::QuotaUsed {
                quota: line.quota.to_owned(),
                key: line.key.to_owned(),
                left: left.to_string(),
                asked: asked.to_string(),
                setting: setting(),
            }),
        }
    }

    /// As the LimitRanger judges each container.
    fn of_container(&self, size: &mut Size, name: &str, item: &LimitRangeItem) -> Result<(), InjectError> {
        let resource = self.kind.name;
        let of = |map: &Option<BTreeMap<String, Quantity>>| amount(map.as_ref(), resource);
        let (max, min) = (of(&item.max), of(&item.min));
        let ratio = of(&item.max_limit_request_ratio);
        if let Some(default) = of(&item.default).or_else(|| max.clone()) {
            // It would be the limit of a sidecar that has none: that of a small application, for a sidecar that moves data.
            size.limit_required(Some(&default).max(self.required));
        } else if ratio.is_some() {
            size.limit_required(self.required);
        }
        if let Some(default) = of(&item.default_request).filter(|_| size.request.is_none()) {
            size.request = Some(default);
        }
        let bound = |rule: &str| format!("LimitRange `{name}` ({rule}.{resource} of a Container)");
        if let Some(max) = &max {
            size.limit_at_most(max, &bound("max"))?;
            size.request_at_most(max, &bound("max"))?;
        }
        if let Some(min) = &min {
            size.request_at_least(min, &bound("min"))?;
            size.limit_at_least(min, &bound("min"))?;
        }
        if let Some((ratio, limit)) = ratio.zip(size.limit.clone()) {
            size.request_at_least(&limit.part(&ratio), &bound("maxLimitRequestRatio"))?;
        }
        Ok(())
    }

    /// As the LimitRanger judges what the containers of a pod add up to.
    fn beside_others(&self, size: &mut Size, name: &str, item: &LimitRangeItem) -> Result<(), InjectError> {
        let resource = self.kind.name;
        let of = |map: &Option<BTreeMap<String, Quantity>>| amount(map.as_ref(), resource);
        let bound = |rule: &str| format!("LimitRange `{name}` ({rule}.{resource} of a Pod)");
        if let Some(max) = of(&item.max) {
            let left = self.left(&max, |resources| resources.limits.as_ref());
            size.limit_at_most(&left, &bound("max"))?;
        }
        let limits = total(self.spec, |resources| resources.limits.as_ref(), resource);
        let ratio = of(&item.max_limit_request_ratio);
        if let Some((ratio, limit)) = ratio.zip(size.limit.clone()) {
            let limits = limits.map_or_else(|| limit.clone(), |others| others.plus(&limit));
            let asked = self.left(&limits.part(&ratio), |resources| resources.requests.as_ref());
            size.request_at_least(&asked.min(limit), &bound("maxLimitRequestRatio"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
