export {
  activeLogin,
  type ActiveLogin,
  forgetLogin,
  keepLogin,
  prepareStore,
  type LoginAccess,
  LoginStore,
  type LoginWarning,
} from './auth/login-store.ts'
export { CredentialsFile } from './auth/credentials-file.ts'
export { loginByDevice, type DeviceCode, type DeviceLoginOptions } from './auth/device-login.ts'
export { verifyLogin, type Identity, type StoredLogin } from './auth/stored-login.ts'
export { type Keyring, SystemKeyring } from './auth/keyring.ts'
export {
  PlatformClient,
  type PlatformClientOptions,
  type PlatformRequest,
  type Scope,
} from './client.ts'
export { uploadDataset, type UploadOptions } from './files/upload-dataset.ts'
export { objectsOf, textOf, type JsonObject, type Page, readPages } from './answers.ts'
export { type ErrorDetails, PlatformError, type PlatformErrorCode } from './platform-error.ts'
export {
  downloadRunFiles,
  type FailedFile,
  listRunFiles,
  type RunFile,
  type RunFiles,
  type RunFileType,
} from './files/run-files.ts'
export {
  type Environment,
  type PlatformSettings,
  readPlatformSettings,
  type TokenStore,
} from './settings.ts'
export { type FilePiece, type Pause, Storage } from './files/storage.ts'
export {
  findGithubCommit,
  type CommitOnGithub,
  type GithubAccess,
  findGitWorkspace,
  git,
  type GitWorkspace,
} from './git-workspace.ts'
