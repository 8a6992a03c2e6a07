import findMyWay, { type HTTPMethod } from 'find-my-way';
import { HTTP_LIMITS } from './limits.js';
import type { Request } from './request.js';
import type { Response } from './response.js';

/** Answers the requests of a route: a controller's method, with its guards and the filter for faults. */
export type RouteHandler = (request: Request, response: Response) => void;

interface FoundRoute {
  handler: RouteHandler;
  /** The pattern, such as `/v1/pets/:petId`. */
  path: string;
  /** The path's values for the pattern's parameters, decoded, none of them empty. */
  params: Record<string, string>;
}

/** The methods that a route may have. */
export const ROUTE_METHODS = ['DELETE', 'GET', 'PATCH', 'POST', 'PUT'] as const;

/**
 * What `Allow` says of a path whose routes have `methods`, in alphabetical order: a GET route answers HEAD too, and every
 * path OPTIONS (RFC 9110, sections 9.3.2 and 9.3.7).
 */
export function allowOf(methods: string[]): string {
  const heads = methods.includes('GET') ? ['HEAD'] : [];
  return [...methods, ...heads, 'OPTIONS'].toSorted().join(', ');
}

/**
 * The routes of the service, by method and path. Paths are case-sensitive, without a trailing slash, and the same however
 * their letters are encoded (RFC 3986, section 6.2.2).
 */
export class Routes {
  private readonly router = findMyWay({
    maxParamLength: HTTP_LIMITS.headerBytes,
    // The query is read where it is asked for.
    querystringParser: () => undefined,
  });

  add(method: (typeof ROUTE_METHODS)[number], path: string, handler: RouteHandler): void {
    this.router.on(method, path, handler as () => void, path);
  }

  /** @param url a path whose percent signs all start a sequence of UTF-8, and a query. */
  find(method: string, url: string): FoundRoute | undefined {
    const found = this.router.find((method === 'HEAD' ? 'GET' : method) as HTTPMethod, url);
    if (found === null) {
      return undefined;
    }
    const params = found.params as Record<string, string>;
    for (const name in params) {
      if (params[name] === '') {
        return undefined;
      }
    }
    return { handler: found.handler as unknown as RouteHandler, path: found.store, params };
  }

  /** @returns what `Allow` says of a path; `undefined` where no method knows the path. */
  allow(url: string): string | undefined {
    const methods = ROUTE_METHODS.filter((method) => this.find(method, url));
    return methods.length === 0 ? undefined : allowOf(methods);
  }
}
