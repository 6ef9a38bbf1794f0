//! The messages of CSI 1.x (package csi.v1) and of kubelet's plugin registration, as far as we answer them: names and numbers of fields.
//! What is not listed here is skipped when it is read.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};

type Map = HashMap<String, String>;

#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

// ---- Identity

#[derive(Clone, PartialEq, Message)]
pub struct GetPluginInfoResponse {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct GetPluginCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PluginCapability {
    #[prost(message, optional, tag = "1")]
    pub service: Option<Capability>,
}

/// The message around the number of a capability, which is the same everywhere.
#[derive(Clone, PartialEq, Message)]
pub struct Capability {
    #[prost(int32, tag = "1")]
    pub kind: i32,
}

pub const CONTROLLER_SERVICE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub struct ProbeResponse {
    #[prost(message, optional, tag = "1")]
    pub ready: Option<BoolValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BoolValue {
    #[prost(bool, tag = "1")]
    pub value: bool,
}

// ---- Volumes

#[derive(Clone, PartialEq, Message)]
pub struct VolumeCapability {
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<AccessMode>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum AccessType {
    #[prost(message, tag = "1")]
    Block(Empty),
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

#[derive(Clone, PartialEq, Message)]
pub struct MountVolume {
    #[prost(string, tag = "1")]
    pub fs_type: String,
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
    #[prost(string, tag = "3")]
    pub volume_mount_group: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct AccessMode {
    #[prost(enumeration = "Mode", tag = "1")]
    pub mode: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum Mode {
    Unknown = 0,
    SingleNodeWriter = 1,
    SingleNodeReaderOnly = 2,
    MultiNodeReaderOnly = 3,
    MultiNodeSingleWriter = 4,
    MultiNodeMultiWriter = 5,
    SingleNodeSingleWriter = 6,
    SingleNodeMultiWriter = 7,
}

#[derive(Clone, PartialEq, Message)]
pub struct Volume {
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    #[prost(string, tag = "2")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "3")]
    pub volume_context: Map,
}

// ---- Controller

#[derive(Clone, PartialEq, Message)]
pub struct CapacityRange {
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: Map,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Map,
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<Empty>,
    #[prost(map = "string, string", tag = "8")]
    pub mutable_parameters: Map,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateVolumeResponse {
    #[prost(message, optional, tag = "1")]
    pub volume: Option<Volume>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub secrets: Map,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(map = "string, string", tag = "2")]
    pub volume_context: Map,
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "4")]
    pub parameters: Map,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Map,
}

#[derive(Clone, PartialEq, Message)]
pub struct ValidateVolumeCapabilitiesResponse {
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    #[prost(string, tag = "2")]
    pub message: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Confirmed {
    #[prost(map = "string, string", tag = "1")]
    pub volume_context: Map,
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
    #[prost(map = "string, string", tag = "3")]
    pub parameters: Map,
}

pub mod controller_capability {
    pub const CREATE_DELETE_VOLUME: i32 = 1;
    pub const SINGLE_NODE_MULTI_WRITER: i32 = 13;
}

// ---- Node

#[derive(Clone, PartialEq, Message)]
pub struct NodeStageVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(map = "string, string", tag = "5")]
    pub secrets: Map,
    #[prost(map = "string, string", tag = "6")]
    pub volume_context: Map,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeUnstageVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodePublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    #[prost(string, tag = "4")]
    pub target_path: String,
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    #[prost(bool, tag = "6")]
    pub readonly: bool,
    #[prost(map = "string, string", tag = "7")]
    pub secrets: Map,
    #[prost(map = "string, string", tag = "8")]
    pub volume_context: Map,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeUnpublishVolumeRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_path: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeStatsResponse {
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
}

#[derive(Clone, PartialEq, Message)]
pub struct VolumeUsage {
    #[prost(int64, tag = "1")]
    pub available: i64,
    #[prost(int64, tag = "2")]
    pub total: i64,
    #[prost(int64, tag = "3")]
    pub used: i64,
    #[prost(int32, tag = "4")]
    pub unit: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeHealthRequest {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(string, tag = "2")]
    pub volume_publish_path: String,
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetVolumeHealthResponse {
    #[prost(message, optional, tag = "1")]
    pub volume_health: Option<VolumeHealth>,
}

/// Without a status, it is well.
#[derive(Clone, PartialEq, Message)]
pub struct VolumeHealth {
    #[prost(string, tag = "1")]
    pub volume_id: String,
    #[prost(message, repeated, tag = "2")]
    pub health_statuses: Vec<HealthStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthStatus {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub reason: String,
    #[prost(string, tag = "3")]
    pub message: String,
}

pub const DEGRADED: i32 = 1;
pub const INACCESSIBLE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetStorageHealthRequest {}

/// Without an entry, all is well.
#[derive(Clone, PartialEq, Message)]
pub struct NodeGetStorageHealthResponse {
    #[prost(message, repeated, tag = "1")]
    pub backend_health: Vec<HealthStatus>,
}

pub const STORAGE_DEGRADED: i32 = 1;
pub const STORAGE_UNREACHABLE: i32 = 2;

pub const BYTES: i32 = 1;
pub const INODES: i32 = 2;

/// Of the node and of the controller.
#[derive(Clone, PartialEq, Message)]
pub struct GetCapabilitiesResponse {
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<ServiceCapability>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServiceCapability {
    #[prost(message, optional, tag = "1")]
    pub rpc: Option<Capability>,
}

pub mod node_capability {
    pub const STAGE_UNSTAGE_VOLUME: i32 = 1;
    pub const GET_VOLUME_STATS: i32 = 2;
    pub const SINGLE_NODE_MULTI_WRITER: i32 = 5;
    pub const VOLUME_MOUNT_GROUP: i32 = 6;
    pub const GET_VOLUME_HEALTH: i32 = 7;
    pub const GET_STORAGE_HEALTH: i32 = 8;
}

#[derive(Clone, PartialEq, Message)]
pub struct NodeGetInfoResponse {
    #[prost(string, tag = "1")]
    pub node_id: String,
    #[prost(int64, tag = "2")]
    pub max_volumes_per_node: i64,
}

// ---- kubelet's plugin registration

#[derive(Clone, PartialEq, Message)]
pub struct PluginInfo {
    #[prost(string, tag = "1")]
    pub kind: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub endpoint: String,
    #[prost(string, repeated, tag = "4")]
    pub supported_versions: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RegistrationStatus {
    #[prost(bool, tag = "1")]
    pub plugin_registered: bool,
    #[prost(string, tag = "2")]
    pub error: String,
}
