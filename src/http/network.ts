/** The 8 groups of an IPv6 address (RFC 4291, section 2.2), without its zone. */
function groupsOf(address: string): string[] {
  const [text = ''] = address.split('%', 1);
  const [head = [], tail = []] = text.split('::').map((part) => part.split(':').filter(Boolean));
  return [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
}

const isIPv6 = (address: string) => address.includes(':') && !address.includes('.');

/** An IPv4 address as it is, also if it is mapped to IPv6 (`::ffff:192.0.2.1`). */
const octetsOf = (address: string) => address.slice(address.lastIndexOf(':') + 1);

/**
 * What identifies the client of an address: an IPv4 address, or the first 64 bits of an IPv6 address, because one host
 * may use all addresses that begin with them (RFC 4291, section 2.5.4).
 */
export const networkOf = (address: string): string =>
  isIPv6(address) ? groupsOf(address).slice(0, 4).join(':') : octetsOf(address);

/** An address and a port as they end in Linux's `/proc/net/tcp`: the last 4 bytes, the last one first, in hexadecimal. */
export function kernelName(address: string, port: number): string {
  const bytes = isIPv6(address)
    ? groupsOf(address)
        .slice(6)
        .flatMap((group) => [parseInt(group, 16) >> 8, parseInt(group, 16) & 255])
    : octetsOf(address).split('.').map(Number);
  const hex = (number: number, digits: number) =>
    number.toString(16).toUpperCase().padStart(digits, '0');
  return `${bytes
    .toReversed()
    .map((byte) => hex(byte, 2))
    .join('')}:${hex(port, 4)}`;
}
