import { isIP } from 'node:net';
import proxyAddr from 'proxy-addr';
import type { Environment } from '../config/environment.js';
import type { Request } from './request.js';

/** Tells the client's address of a request. `X-Forwarded-For` counts as far as trusted proxies wrote it. */
export type ClientAddress = (request: Request) => string | undefined;

/**
 * @param trusted how many proxies stand before the service, or their addresses and ranges, separated by commas; none
 *   when left out.
 */
export function clientAddress(trusted: Environment['TRUST_PROXY']): ClientAddress {
  if (trusted === undefined) {
    return ({ socket }) => socket.remoteAddress;
  }
  const isTrusted =
    typeof trusted === 'number'
      ? (_address: string, hops: number) => hops < trusted
      : proxyAddr.compile(trusted.split(',').map((range) => range.trim()));
  return (request) => {
    const { remoteAddress } = request.socket;
    if (remoteAddress === undefined) {
      return undefined;
    }
    const address = proxyAddr(request, isTrusted);
    return isIP(address) === 0 ? remoteAddress : address;
  };
}
