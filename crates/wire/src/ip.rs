//! IP, TCP, UDP and ICMP headers: in-place accessors checked once by length, and checksums.
