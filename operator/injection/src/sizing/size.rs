//! Request and limit of one resource, and what may change them.

use k8s_openapi::api::core::v1::{Pod, ResourceRequirements};
use sealane_operator_api::well_known::{
    CPU_LIMIT_ANNOTATION, CPU_REQUEST_ANNOTATION, MEMORY_LIMIT_ANNOTATION, MEMORY_REQUEST_ANNOTATION,
};

use crate::amount::Amount;
use crate::bounds::amount;
use crate::pod_shape::InjectError;

pub(super) const CPU: &str = "cpu";
pub(super) const MEMORY: &str = "memory";

/// A resource of containers.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) request_annotation: Option<&'static str>,
    pub(super) limit_annotation: Option<&'static str>,
    /// A sidecar with less does not work at all.
    least: &'static str,
}

pub(super) const KINDS: [Kind; 3] = [
    Kind {
        name: CPU,
        request_annotation: Some(CPU_REQUEST_ANNOTATION),
        limit_annotation: Some(CPU_LIMIT_ANNOTATION),
        least: "10m",
    },
    // The process, the smallest arena that moves tensors, and what forwards may hold.
    Kind {
        name: MEMORY,
        request_annotation: Some(MEMORY_REQUEST_ANNOTATION),
        limit_annotation: Some(MEMORY_LIMIT_ANNOTATION),
        least: "96Mi",
    },
    Kind { name: "ephemeral-storage", request_annotation: None, limit_annotation: None, least: "0" },
];

/// What a sidecar gets of one resource.
#[derive(Debug)]
pub(super) struct Size {
    pub(super) kind: &'static Kind,
    pub(super) request: Option<Amount>,
    pub(super) limit: Option<Amount>,
    /// The bound that made the limit smaller than the chart has it.
    pub(super) lowered: Option<String>,
    /// Annotations that set them: what a person wrote is refused rather than changed.
    request_by: Option<&'static str>,
    limit_by: Option<&'static str>,
    /// A container of a Guaranteed pod requests its limit.
    equal: bool,
}

impl Size {
    /// What chart and annotations ask for.
    ///
    /// # Errors
    /// [`InjectError::Quantity`].
    pub(super) fn asked(
        kind: &'static Kind,
        pod: &Pod,
        chart: &ResourceRequirements,
    ) -> Result<Self, InjectError> {
        let request = annotated(pod, kind.request_annotation)?;
        let limit = annotated(pod, kind.limit_annotation)?;
        let mut size = Self {
            kind,
            request_by: kind.request_annotation.filter(|_| request.is_some()),
            limit_by: kind.limit_annotation.filter(|_| limit.is_some()),
            request: request.or_else(|| amount(chart.requests.as_ref(), kind.name)),
            limit: limit.or_else(|| amount(chart.limits.as_ref(), kind.name)),
            lowered: None,
            equal: false,
        };
        // One annotation alone never makes a pod that the API server refuses.
        if size.request > size.limit && size.limit.is_some() {
            match (size.request_by, size.limit_by) {
                (None, _) => size.request.clone_from(&size.limit),
                (Some(_), None) => size.limit.clone_from(&size.request),
                (Some(_), Some(_)) => {}
            }
        }
        Ok(size)
    }

    /// In a Guaranteed pod every container has limits and requests them: an annotation says which, then the chart, and a
    /// chart that sets no limit leaves `required`, unless it requests more.
    pub(super) fn guarantee(&mut self, required: Option<&Amount>) {
        let without_limit = || self.request.as_ref().max(required).cloned();
        let chosen = match (self.limit_by, self.request_by) {
            (None, Some(_)) => self.request.clone(),
            _ => self.limit.clone().or_else(without_limit),
        };
        self.limit_by = self.limit_by.or(self.request_by);
        self.request_by = self.limit_by;
        self.request.clone_from(&chosen);
        self.limit = chosen;
        self.equal = true;
    }

    /// There has to be a limit: what is requested, or what is `required` if that is more.
    pub(super) fn limit_required(&mut self, required: Option<&Amount>) {
        if self.limit.is_none() {
            self.limit = self.request.as_ref().max(required).cloned();
        }
    }

    /// There has to be a request.
    pub(super) fn request_required(&mut self) {
        if self.request.is_none() {
            self.request = self.limit.clone().or_else(|| Amount::parse(self.kind.least));
        }
    }

    /// # Errors
    /// An annotation asks for more, or what is left is too little.
    pub(super) fn limit_at_most(&mut self, most: &Amount, bound: &str) -> Result<(), InjectError> {
        if let Some(limit) = self.limit.clone().filter(|limit| limit > most) {
            self.may_lower(self.limit_by, &limit, most, bound)?;
            if Amount::parse(self.kind.least).is_some_and(|least| *most < least) {
                return Err(InjectError::NoRoom {
                    resource: self.kind.name,
                    bound: bound.to_owned(),
                    most: most.to_string(),
                    least: self.kind.least,
                });
            }
            self.limit = Some(most.clone());
            self.lowered = Some(bound.to_owned());
        }
        match &self.limit {
            Some(limit) if self.request.as_ref().is_some_and(|request| request > limit) => {
                let limit = limit.clone();
                self.request_at_most(&limit, bound)
            }
            _ => Ok(()),
        }
    }

    /// # Errors
    /// An annotation asks for more.
    pub(super) fn request_at_most(&mut self, most: &Amount, bound: &str) -> Result<(), InjectError> {
        let Some(request) = self.request.clone().filter(|request| request > most) else { return Ok(()) };
        self.may_lower(self.request_by, &request, most, bound)?;
        self.request = Some(most.clone());
        if self.equal { self.limit_at_most(most, bound) } else { Ok(()) }
    }

    /// # Errors
    /// An annotation asks for less.
    pub(super) fn request_at_least(&mut self, least: &Amount, bound: &str) -> Result<(), InjectError> {
        let Some(request) = self.request.clone().filter(|request| request < least) else { return Ok(()) };
        self.may_raise(self.request_by, &request, least, bound)?;
        self.request = Some(least.clone());
        self.limit_at_least(least, bound)
    }

    /// # Errors
    /// An annotation asks for less.
    pub(super) fn limit_at_least(&mut self, least: &Amount, bound: &str) -> Result<(), InjectError> {
        let Some(limit) = self.limit.clone().filter(|limit| limit < least) else { return Ok(()) };
        self.may_raise(self.limit_by, &limit, least, bound)?;
        self.limit = Some(least.clone());
        if self.equal {
            self.request = Some(least.clone());
        }
        Ok(())
    }

    fn may_lower(
        &self,
        annotation: Option<&'static str>,
        value: &Amount,
        most: &Amount,
        bound: &str,
    ) -> Result<(), InjectError> {
        let Some(annotation) = annotation else { return Ok(()) };
        let (value, most) = (value.to_string(), most.to_string());
        Err(InjectError::TooMuch { annotation, value, most, bound: bound.to_owned() })
    }

    fn may_raise(
        &self,
        annotation: Option<&'static str>,
        value: &Amount,
        least: &Amount,
        bound: &str,
    ) -> Result<(), InjectError> {
        let Some(annotation) = annotation else { return Ok(()) };
        let (value, least) = (value.to_string(), least.to_string());
        Err(InjectError::TooLittle { annotation, value, least, bound: bound.to_owned() })
    }
}

fn annotated(pod: &Pod, annotation: Option<&'static str>) -> Result<Option<Amount>, InjectError> {
    let written = |annotation| Some((annotation, pod.metadata.annotations.as_ref()?.get(annotation)?));
    let Some((annotation, value)) = annotation.and_then(written) else { return Ok(None) };
    let wrong = || InjectError::Quantity { annotation, value: value.chars().take(64).collect() };
    Amount::parse(value).map(Some).ok_or_else(wrong)
}
