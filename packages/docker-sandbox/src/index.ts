export { DockerSandbox, type DockerSandboxOptions } from './docker-sandbox.ts'
