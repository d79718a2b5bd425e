//! The virtio-net header that a TUN device with IFF_VNET_HDR puts before each packet.
