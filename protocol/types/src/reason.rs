//! The one reason word that a refusal or degradation carries wherever it is shown: condition, event,
//! exception, metric and log.

use crate::platform::words;

words!(
    /// Why something was refused, ended or degraded. The discriminant is the value on the wire; the list
    /// only grows, at its end.
    Reason {
        /// Nothing more precise applies; the message says what is known.
        Unspecified,
        // Policy.
        PolicyMissing,
        PolicyMalformed,
        PolicyUnsigned,
        PolicyUnderSigned,
        PolicyExpired,
        PolicyNotYetValid,
        PolicyRolledBack,
        PolicyConflict,
        PolicyMismatch,
        PolicyRootsMissing,
        PeerNotInPolicy,
        SessionNotInPolicy,
        // Evidence.
        EvidenceMissing,
        EvidenceMalformed,
        EvidenceUntrusted,
        EvidenceExpired,
        EvidenceNotBound,
        MeasurementMismatch,
        HostDataMismatch,
        ProductMismatch,
        TcbTooLow,
        DebugNotAllowed,
        PermissionNotAllowed,
        PlatformNotAllowed,
        SimulationNotAllowed,
        RootMismatch,
        KeyMismatch,
        WorkloadMismatch,
        ReferenceValueMissing,
        WorkloadUnverified,
        CollateralMissing,
        CollateralExpired,
        ProviderUnavailable,
        // Protocol.
        VersionUnsupported,
        SuiteRefused,
        PostQuantumRequired,
        HandshakeFailed,
        HandshakeTimeout,
        RecordRejected,
        FrameMalformed,
        LimitExceeded,
        // Lifecycle.
        SessionDeleted,
        SessionSuspended,
        SessionUnknown,
        PeerUnknown,
        NotConfigured,
        NoReplicas,
        PodsNotInjected,
        TooManyReplicas,
        Unreachable,
        Draining,
        LinkLost,
        Stalled,
        Finished,
        ClockSuspect,
        // Forwarded ports.
        /// Nothing listens on the target port of a forward.
        TargetUnreachable,
        /// The port of a forward cannot be listened on: something else in the pod does.
        PortConflict,
        /// The port of a forward is one of Sealane's own or of the guest's agents.
        PortReserved,
        // Faults on this side.
        /// The memory that an application shares with its sidecar cannot be read or written.
        MemoryUnusable,
        /// Sealane broke a rule of its own; the log says which.
        Internal,
        // Resumption.
        /// The ticket is not good, or not any more: a full handshake is the answer.
        TicketRefused,
        /// The connection is as old as the policy permits; a full handshake begins a new one.
        SessionLifeOver,
        // Audits.
        /// Whoever asks for evidence is no auditor of the policy.
        AuditorUnknown,
        // Collateral.
        /// A revocation list or TCB information is over and counts within the grace that the policy signs.
        CollateralStale,
        // Carriers.
        /// The policy does not list what would carry the session.
        CarrierRefused,
        /// What was asked to carry the session cannot be had, and UDP carries it.
        CarrierFallback,
        /// The policy does not list the congestion control that the session names.
        CongestionRefused,
        // Resources.
        /// The sidecar's container is held back by its CPU limit.
        CpuThrottled,
        /// The address of a forward cannot be listened on, and not because something else does.
        ListenFailed,
        // Said by clients alone.
        /// There is no sidecar at the door.
        DoorUnreachable,
        /// A door that was opened in another process.
        UsedAfterFork,
        /// An exception cut a call short while it changed the state of the door.
        CallInterrupted,
        // Trust configurations.
        /// The peer started from other roots than this side, and none that these signed on to.
        RootsDiffer,
        /// The peer has its roots from somewhere weaker than the policy demands.
        RootSourceTooWeak,
    }
);

impl Reason {
    /// The value on the wire.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The reason with wire value `code`; one that a newer peer added reads as [`Reason::Unspecified`].
    #[must_use]
    pub fn from_code(code: u16) -> Self {
        Self::ALL.get(usize::from(code)).copied().unwrap_or(Self::Unspecified)
    }
}
