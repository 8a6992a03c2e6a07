import { isIP, SocketAddress } from 'node:net';

/** The 8 groups of an IPv6 address (RFC 4291, section 2.2), without its zone. */
function groupsOf(address: string): string[] {
  const [text = ''] = address.split('%', 1);
  const [head = [], tail = []] = text.split('::').map((part) => part.split(':').filter(Boolean));
  return [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
}

/** Not if it is a mapped IPv4 address. A zone, such as `%eth0.100`, may have a point too. */
const isIPv6 = (address: string) => /^[^.%]*:[^.%]*(?:%|$)/.test(address);

/** An IPv4 address as it is, also if it is mapped to IPv6 (`::ffff:192.0.2.1`). */
const octetsOf = (address: string) => address.slice(address.lastIndexOf(':') + 1);

/** @returns an IP address in its one form (RFC 5952), without a zone, and IPv4 if it is mapped; `undefined` for other text. */
export function addressOf(text: string): string | undefined {
  const address = text.replace(/^::ffff:(?=[0-9.]+$)|%.*$/gis, '');
  const version = isIP(address);
  if (version !== 6) {
    return version === 4 ? address : undefined;
  }
  const { hostname } = new URL(`http://[${address}]`);
  // It has a mapped address in hexadecimal. SocketAddress takes 10 µs.
  return hostname.startsWith('[::ffff:')
    ? octetsOf(new SocketAddress({ address, family: 'ipv6' }).address)
    : hostname.slice(1, -1);
}

/** @returns an `X-Forwarded-For` without the ports that some gateways write: `203.0.113.9:61598`, `[2001:db8::1]:443`. */
export const withoutPorts = (addresses: string): string => addresses.replaceAll(WITH_PORT, '$1$2');

const WITH_PORT = /\[([0-9a-f:.]{2,45})\](?::\d{1,5})?|\b((?:\d{1,3}\.){3}\d{1,3}):\d{1,5}/gi;

/**
 * What identifies the client of an address: an IPv4 address, or the first 64 bits of an IPv6 address, because one host
 * may use all addresses that begin with them (RFC 4291, section 2.5.4).
 */
export const networkOf = (address: string): string =>
  isIPv6(address) ? groupsOf(address).slice(0, 4).join(':') : octetsOf(address);

/** An address and a port as in Linux's `/proc/net/tcp`: hexadecimal, of each 4 bytes the last one first. IPv4 is not mapped. */
export function kernelName(address: string, port: number): string {
  const bytes = isIPv6(address)
    ? groupsOf(address).flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
    : octetsOf(address).split('.').map(Number);
  const name = Buffer.from(bytes).swap32().toString('hex');
  return `${name}:${port.toString(16).padStart(4, '0')}`.toUpperCase();
}
