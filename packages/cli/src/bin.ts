#!/usr/bin/env node
import { main } from './main.ts'

// Whoever reads the output may stop reading; what was asked for is done all the same.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})
process.exitCode = await main(process.argv.slice(2))
