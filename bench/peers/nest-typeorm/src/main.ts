/** Nest 12 on Express with TypeORM repositories, ValidationPipe and passport, as the Nest documentation has them. */
import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { BadRequestException, ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { NextFunction, Request, Response } from 'express';
import { pinoHttp } from 'pino-http';
import { BODY_LIMIT, errorBody, logger, parseJson } from '../../contract.js';
import { AppModule } from './app.module.js';

const app = await NestFactory.create<NestExpressApplication>(AppModule, {
  bodyParser: false,
  logger: ['error', 'warn'],
});
app.disable('x-powered-by');
app.disable('etag');
app.setGlobalPrefix('v1');

app.use(
  pinoHttp({
    logger,
    genReqId: () => randomUUID(),
    quietReqLogger: true,
    customProps: (request) => ({ key: (request as Request).user }),
    serializers: {
      req: ({ method, url }) => ({ method, url }),
      res: ({ statusCode }) => ({ status: statusCode }),
    },
  }),
);

// As text, parsed here: the JSON parser that Nest registers would round an int64.
app.useBodyParser('text', { type: 'application/json', limit: BODY_LIMIT });
app.use((request: Request, response: Response, next: NextFunction) => {
  response.setHeader('Cache-Control', 'no-store');
  if (typeof request.body === 'string') {
    try {
      request.body = parseJson(request.body);
    } catch (fault: any) {
      response.status(fault.body.status).json(fault.body);
      return;
    }
  }
  next();
});

app.useGlobalPipes(
  new ValidationPipe({
    transform: true,
    whitelist: true,
    exceptionFactory: (faults) => {
      const messages = faults.flatMap(({ constraints }) => Object.values(constraints ?? {}));
      return new BadRequestException(errorBody('invalid_request', messages.join('; ')));
    },
  }),
);

await app.listen(Number(process.env['PORT']), '127.0.0.1');
