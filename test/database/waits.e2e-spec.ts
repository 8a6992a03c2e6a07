import { Client } from 'pg';
