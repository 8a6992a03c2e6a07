/** A module of the client. Without its types: they need what `npm run build` makes of the OpenAPI document. */
export const source = (name: string): Promise<any> => import(`../src/${name}.js`);
