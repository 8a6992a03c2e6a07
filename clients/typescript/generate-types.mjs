// Writes TypeScript types of the service's OpenAPI document: node generate-types.mjs openapi.yaml animal-store.ts
import { readFileSync, writeFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const [source, target] = process.argv.slice(2);
const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
const types = await openapiTS(readFileSync(source, 'utf8'), {
  // A number could not hold an int64.
  transform: ({ format }) => (format === 'int64' ? BIGINT : undefined),
});
writeFileSync(target, astToString(types));
