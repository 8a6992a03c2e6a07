import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { LOGGER, type Logger } from '../logging/logger.js';
import { type Finding, findingsOf } from './schema-state.js';

/** Compares the database with what this code needs, and logs what no operation on pets needs once for each change. */
@Injectable()
export class SchemaMonitor implements OnModuleInit {
  warnings = 0;
  private logged = '';

  constructor(
    private readonly dataSource: DataSource,
    @Inject(LOGGER) private readonly logger: Logger,
  ) {}

  async onModuleInit(): Promise<void> {
    // If the database is away, readiness says so.
    await this.findings().catch(() => {});
  }

  async findings(): Promise<Finding[]> {
    const findings = await findingsOf(this.dataSource);
    const warnings = findings.filter(({ isError }) => !isError);
    this.warnings = warnings.length;
    const reason = warnings.map(({ message }) => message).join(' ');
    if (reason !== this.logged) {
      this.logged = reason;
      if (reason === '') {
        this.logger.info('The database has everything that the service uses');
      } else {
        const message = 'The database lacks something that no operation on pets needs';
        this.logger.warn({ reason }, message);
      }
    }
    return findings;
  }
}
